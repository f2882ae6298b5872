// Draw words as points on a plane, with labels where there is room.
import { makeSvg } from "./make.js";

const [MARGIN, SIZE] = [28, 13]; // at the top and bottom; of letters

export function drawing(points, current, width) {
  const height = Math.round(Math.min(460, Math.max(300, 0.62 * width)));
  const middle = (values) => (Math.min(...values) + Math.max(...values)) / 2;
  const reach = (values) => Math.max(...values) - Math.min(...values) || 1e-9;
  const [xs, ys] = [points.map((p) => p.x), points.map((p) => p.y)];
  // One scale for both directions keeps distances true; labels need more room at the sides.
  const scale = Math.min((width - 2 * Math.min(84, 0.16 * width)) / reach(xs), (height - 2 * MARGIN) / reach(ys), 1e6);
  const words = nearest(points).slice(0, 12).map(([word, others]) => `${word} is nearest to ${others[0] ?? "nothing"}`);
  const label = `Map of ${points.length} words: ${words.join("; ")}`;
  const picture = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  const placed = points.map((p) => ({
    word: p.word,
    x: width / 2 + (p.x - middle(xs)) * scale,
    y: height / 2 - (p.y - middle(ys)) * scale,
  }));
  const taken = placed.map((p) => [p.x - 4, p.y - 4, p.x + 4, p.y + 4]);
  placed.sort((a, b) => (b.word === current) - (a.word === current)); // the current word's label first
  for (const { word, x, y } of placed) {
    const group = makeSvg("g", word === current ? { class: "current" } : {});
    group.append(makeSvg("title", {}, word), makeSvg("circle", { cx: x, cy: y, r: 3.5 }));
    const long = pen.measureText(word).width;
    const [after, before, over] = [x + 7, x - 7 - long, x - long / 2];
    const spots = [[after, y + 4], [before, y + 4], [over, y - 8], [over, y + 17],
      [after, y - 5], [before, y - 5], [after, y + 13], [before, y + 13]];
    const free = spots.find(([left, base]) => {
      const box = [left, base - SIZE + 2, left + long, base + 3];
      const inside = box[0] > 2 && box[2] < width - 2 && box[1] > 2 && box[3] < height - 2;
      if (!inside || taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])) return false;
      taken.push(box);
      return true;
    });
    if (free) group.append(makeSvg("text", { x: free[0] + long / 2, y: free[1], "text-anchor": "middle" }, word));
    picture.append(group);
  }
  return picture;
}

export function nearest(points) {
  return points.map((p) => {
    const others = points.filter((q) => q !== p).map((q) => [Math.hypot(q.x - p.x, q.y - p.y), q.word]);
    return [p.word, others.sort((a, b) => a[0] - b[0]).slice(0, 2).map(([, word]) => word)];
  });
}
