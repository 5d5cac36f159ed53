// What each ε would give a vehicle: the error of the guess, and what is spent.

import { ask, Course, Settings, Summary } from "./api";
import { element } from "./chart";
import { make, metres, sum } from "./look";

const epsilons = [0.5, 1, 2, 4, 8];
// mostCells and mostReports are where other settings cost the server too much to compute them unasked.
const mostCells = 100_000;
const mostReports = 2000;

interface Point { epsilon: number; spent: number; km: number }

const kept = new Map<string, Promise<Point>>();

// point computes what an ε gives over a whole trace.
async function point(user: string, s: Settings): Promise<Point> {
  let summary: Summary;
  let done: number;
  let total: number;
  do {
    ({ summary, done, total } = await ask<Course>("course", { user, ...s, from: mostReports, within_ms: 250 }));
  } while (done < total);
  return { epsilon: s.epsilon, spent: summary.spent, km: summary.estimate_m.median / 1000 };
}

// frontier returns the picture, or null where it would cost too much. take is called with an ε that
// somebody picks.
export async function frontier(course: Course, s: Settings, cells: number, take: (epsilon: number) => void): Promise<HTMLElement | null> {
  if (cells > mostCells || course.total > mostReports) return null;
  const all = [...epsilons.filter((x) => Math.abs(Math.log(x / s.epsilon)) > 0.4), s.epsilon].sort((a, b) => a - b);
  const points = await Promise.all(all.map((epsilon) => {
    const key = JSON.stringify([course.user, { ...s, epsilon }]);
    const one = kept.get(key) ?? point(course.user, { ...s, epsilon });
    kept.set(key, one);
    if (kept.size > 100) kept.delete(kept.keys().next().value!);
    one.catch(() => kept.delete(key));
    return one;
  }));
  return draw(points.filter((p) => p.spent > 0), s.epsilon, course.summary.blind_m.median / 1000, take);
}

const [width, height, left, right, top, bottom] = [346, 118, 52, 16, 18, 24];

function draw(points: Point[], own: number, blind: number, take: (epsilon: number) => void): HTMLElement | null {
  if (points.length === 0) return null;
  const high = 1.08 * Math.max(blind, ...points.map((p) => p.km));
  const [least, most] = [points[0]!.epsilon, points.at(-1)!.epsilon];
  const x = (p: Point) => left + (Math.log(p.epsilon / least) / Math.max(1e-9, Math.log(most / least))) * (width - left - right);
  const y = (km: number) => top + (1 - km / high) * (height - top - bottom);
  const says = points.map((p) => `ε = ${sum(p.epsilon)}: Σε = ${sum(p.spent)}, ${metres(p.km)}`).join("; ");
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", id: "frontier", role: "img",
    "aria-label": `Median error of the guess under each ε over the trace. ${says}. Without releases ${metres(blind)}` });
  for (const [km, text] of [[0, "0"], [blind, metres(blind)]] as const) {
    svg.append(element("line", { x1: left, x2: width - right, y1: y(km), y2: y(km), class: km ? "now" : "axis" }),
      element("text", { x: left - 6, y: y(km) + 4, "text-anchor": "end" }, text));
  }
  const away = Math.abs(points[0]!.km - blind) > Math.abs(points.at(-1)!.km - blind); // the text stands where the curve is far from this line
  svg.append(element("text", { x: away ? left + 4 : width - right, y: y(blind) - 5, "text-anchor": away ? "start" : "end" }, "without any release"));
  svg.append(element("polyline", { points: points.map((p) => `${x(p)},${y(p.km)}`).join(" "), class: "series", stroke: "var(--accent)" }));
  for (const p of points) {
    const here = p.epsilon === own;
    const dot = element("circle", { cx: x(p), cy: y(p.km), r: here ? 7 : 5, class: here ? "here" : "there" });
    dot.append(element("title", {}, `ε = ${sum(p.epsilon)}: Σε = ${sum(p.spent)} over the trace, median error ${metres(p.km)}`));
    dot.addEventListener("click", () => take(p.epsilon));
    svg.append(dot, element("text", { x: x(p), y: height - 7, "text-anchor": "middle" }, `ε ${sum(p.epsilon)}`));
    const below = Math.abs(y(p.km) - y(blind)) < 24; // the words "without any release" are there
    if (here) svg.append(element("text", { x: x(p), y: y(p.km) + (below ? 21 : -11), "text-anchor": below || p === points.at(-1) ? "end" : "start" }, metres(p.km)));
  }
  return make("figure", {}, svg, make("figcaption", { class: "small" }, "Median error over this trace, by ε: click to choose"));
}
