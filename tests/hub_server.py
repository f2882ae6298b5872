"""A small server that speaks the paths of the Hugging Face Hub, to be used by the real client (`HF_ENDPOINT`)."""

import base64
import hashlib
import json
import re
import threading
from collections import defaultdict
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_test"
GATED = "owner/gated"


class Hub:
    """Repositories in memory: commits by their hash, each a mapping from paths to content, and branches."""

    def __init__(self):
        self.branches = {}  # repository: {branch: commit}
        self.commits = defaultdict(dict)  # repository: {commit: files}
        self.private = {}
        self.large = {}  # by sha256: what was uploaded as LFS does
        self.requests = []

    def create(self, repo, private=False):
        self.branches[repo] = {}
        self.private[repo] = private
        self.commit(repo, "main", {".gitattributes": b"*.safetensors filter=lfs\n"})

    def commit(self, repo, branch, changes):
        files = {**self.files(repo, branch), **changes}
        commit = hashlib.sha1(repr((repo, branch, len(self.commits[repo]))).encode()).hexdigest()
        self.commits[repo][commit] = files
        self.branches[repo][branch] = commit
        return commit

    def commit_of(self, repo, revision):
        return self.branches[repo].get(revision, revision if revision in self.commits[repo] else None)

    def files(self, repo, revision):
        return self.commits[repo].get(self.commit_of(repo, revision), {})


class Problem(Exception):
    """An answer with an error: the status, and the code by which the client knows it."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        """Answer a request with the first method of `PATHS` that it fits."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        self.hub.requests.append(f"{self.command} {path}")
        try:
            for pattern, name in PATHS.items():
                if found := re.fullmatch(pattern, f"{self.command} {path}"):
                    return self.send(200, *getattr(self, name)(body, *map(unquote, found.groups())))
            raise Problem(404, "EntryNotFound")
        except Problem as problem:
            status, code, *content = problem.args
            said = {"X-Error-Code": code, "X-Error-Message": "the server says no"}
            return self.send(status, *(content or [{}]), said)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def send(self, status, content, headers=()):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def check_token(self, repo=""):
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Problem(401, "")
        if not repo.startswith(("owner/", "/")):
            raise Problem(403, "")

    def check(self, repo, revision="main"):
        if repo == GATED:
            raise Problem(403, "GatedRepo")
        if repo not in self.hub.branches:
            raise Problem(401, "RepoNotFound")
        if self.hub.private[repo] and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Problem(401, "RepoNotFound")  # as the Hub does, so that nobody learns of it
        if self.hub.commit_of(repo, revision) is None:
            raise Problem(404, "RevisionNotFound")

    # Reading

    def info(self, _, repo, revision="main"):
        self.check(repo, revision)
        names = [{"rfilename": name} for name in self.hub.files(repo, revision)]
        about = {"id": repo, "modelId": repo, "private": False, "tags": [], "downloads": 0, "likes": 0}
        return [{**about, "sha": self.hub.commit_of(repo, revision), "siblings": names}]

    def tree(self, _, repo, revision):
        self.check(repo, revision)
        files = self.hub.files(repo, revision)
        return [[{"type": "file", "path": name, "size": len(data), "oid": etag(data)} for name, data in files.items()]]

    def resolve(self, _, repo, revision, name):
        self.check(repo, revision)
        files = self.hub.files(repo, revision)
        if name not in files:
            raise Problem(404, "EntryNotFound")
        commit = self.hub.commit_of(repo, revision)
        return files[name], {"ETag": f'"{etag(files[name])}"', "X-Repo-Commit": commit}

    # Writing

    def create(self, body, *_):
        asked = json.loads(body)
        repo = f"{asked['organization']}/{asked['name']}"
        self.check_token(repo)
        made = {"url": f"http://{self.headers['Host']}/{repo}", "name": repo}
        if repo in self.hub.branches:
            raise Problem(409, "", made)
        self.hub.create(repo, asked.get("private") or asked.get("visibility") == "private")
        return [made]

    def branch(self, _, repo, name):
        self.check_token(repo)
        if name in self.hub.branches[repo]:
            raise Problem(409, "")
        self.hub.branches[repo][name] = self.hub.branches[repo]["main"]
        return [{}]

    def validate(self, body):
        head = json.loads(body)["content"].split("---\n")[1:2]
        yaml.safe_load("".join(head))
        return [{"errors": [], "warnings": []}]

    def preupload(self, body, repo, revision):
        self.check_token(repo)
        self.check(repo, revision)
        names = [file["path"] for file in json.loads(body)["files"]]
        modes = ["lfs" if name.endswith(".safetensors") else "regular" for name in names]
        return [
            {
                "files": [
                    {"path": name, "uploadMode": mode, "shouldIgnore": False}
                    for name, mode in zip(names, modes, strict=True)
                ]
            }
        ]

    def lfs_batch(self, body, repo):
        self.check_token(repo)
        objects = json.loads(body)["objects"]
        for each in objects:
            each["actions"] = {"upload": {"href": f"http://{self.headers['Host']}/upload/{each['oid']}"}}
        return [{"transfer": "basic", "objects": objects}]

    def lfs_upload(self, body, sha256):
        assert hashlib.sha256(body).hexdigest() == sha256
        self.hub.large[sha256] = body
        return [{}]

    def commit(self, body, repo, revision):
        self.check_token(repo)
        changes = {}
        for line in body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                changes[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                changes[value["path"]] = self.hub.large[value["oid"]]
        commit = self.hub.commit(repo, revision, changes)
        return [{"commitUrl": f"http://{self.headers['Host']}/{repo}/commit/{commit}", "commitOid": commit}]


REPO, ONE = "([^/]+/[^/]+)", "([^/]+)"
PATHS = {
    "POST /api/repos/create": "create",
    "POST /api/validate-yaml": "validate",
    f"POST /api/models/{REPO}/branch/{ONE}": "branch",
    f"POST /api/models/{REPO}/preupload/{ONE}": "preupload",
    f"POST /api/models/{REPO}/commit/{ONE}": "commit",
    r"POST /([^/]+/[^/]+)\.git/info/lfs/objects/batch": "lfs_batch",
    f"PUT /upload/{ONE}": "lfs_upload",
    f"GET /api/models/{REPO}": "info",
    f"GET /api/models/{REPO}/revision/{ONE}": "info",
    f"GET /api/models/{REPO}/tree/{ONE}": "tree",
    f"(?:GET|HEAD) /{REPO}/resolve/{ONE}/(.+)": "resolve",
}


def etag(data):
    """Return the name of a file's content, as git has it."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def serve():
    """Yield a hub and the address at which it is served."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("HubHandler", (Handler,), {"hub": hub}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield hub, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
