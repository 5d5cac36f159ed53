// What somebody takes along from a picture: the picture, its numbers, its settings as a config.

import { Course, Past, Settings } from "./api";
import { element } from "./chart";
import { button, make } from "./look";
import { MapView } from "./map";
import { State } from "./state";
import { SVGSurface } from "./surface";

// save hands a file to the browser. Nothing leaves the machine.
function save(name: string, content: Blob): void {
  const link = make("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const all = ["truth_x", "truth_y", "release_x", "release_y", "estimate_x", "estimate_y", "radius_km", "blind_x", "blind_y", "spent"] as const;

// decimal always has a decimal point: a reader that guesses would take a column that starts with
// zeros for integers.
const decimal = (x: number | null | undefined) => x == null ? "" : Number.isInteger(x) ? x.toFixed(1) : String(x);

// numbers are the reports of a course as CSV, as far as they are computed. Places are in kilometres
// east and north of the map's south-west corner.
export function numbers(c: Course, past: Past | null, truth: boolean): string {
  const columns = all.slice(truth ? 0 : 2);
  const lines = [["time", "kind", ...columns, ...(past ? ["smoothed_x", "smoothed_y"] : [])].join()];
  c.time_ms.forEach((ms, i) => {
    lines.push([new Date(ms).toISOString(), c.kind[i], ...columns.map((name) => decimal(c[name][i])),
      ...(past ? [decimal(past.x[i]), decimal(past.y[i])] : [])].join());
  });
  return lines.join("\n") + "\n";
}

// config is the section of a service's config that has these settings.
export function config(s: Settings, stepSeconds: number): string {
  const lines = ["release:", `  mechanism: ${s.mechanism}`, `  epsilon: ${s.epsilon}`];
  if (s.mechanism !== "codebook") lines.push(`  delta: ${s.delta}`);
  if (s.hours) lines.push(`  hours: ["${s.hours} UTC"]`);
  lines.push(`  interval: ${s.interval * stepSeconds}s`, s.budget ? `  budget: {epsilon: ${s.budget}, window: 24h}`
    : "  budget: none # set a limit before you use this: each release adds its epsilon");
  return lines.join("\n") + "\n";
}

// Seen is what somebody looks at.
interface Seen { id: string; element: HTMLElement; maps: MapView[] }

const shown = (e: Element) => e.getClientRects().length > 0;

// around is the box around elements.
function around(all: Element[]): DOMRect {
  const boxes = all.map((e) => e.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map((b) => b.left)), Math.min(...boxes.map((b) => b.top))];
  return new DOMRect(left, top, Math.max(...boxes.map((b) => b.right)) - left, Math.max(...boxes.map((b) => b.bottom)) - top);
}

// bitmap has all maps as they stand.
function bitmap(maps: MapView[]): HTMLCanvasElement {
  const all = maps.map(({ canvas }) => canvas).filter(shown);
  const [box, ratio] = [around(all), window.devicePixelRatio || 1];
  const picture = make("canvas", { width: String(Math.round(box.width * ratio)), height: String(Math.round(box.height * ratio)) });
  const c = picture.getContext("2d")!;
  for (const canvas of all) {
    const { left, top } = canvas.getBoundingClientRect();
    c.drawImage(canvas, (left - box.left) * ratio, (top - box.top) * ratio);
  }
  return picture;
}

const styles = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "opacity", "font-size", "font-family"];

// styled is a chart with the styles that it has here, so that it looks the same elsewhere.
function styled(chart: Element): Element {
  const copy = chart.cloneNode(true) as Element;
  const parts = chart.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((part, i) => {
    for (const name of styles) part.setAttribute(name, getComputedStyle(parts[i]!).getPropertyValue(name));
  });
  return copy;
}

// vectors has all maps, charts and headings as they stand, with no pixel in it.
function vectors(view: Seen): SVGElement {
  const all = [...view.element.querySelectorAll("canvas[role=img], .chart, h2, .corner")].filter(shown);
  const box = around(all);
  const picture = element("svg", { width: box.width, height: box.height });
  const on = new SVGSurface(picture);
  on.shape((path) => path.rect(0, 0, box.width, box.height), { fill: "paper" });
  for (const e of all) {
    const { left, top, width, height } = e.getBoundingClientRect();
    const map = view.maps.find(({ canvas }) => canvas === e);
    if (!map && !e.matches(".chart")) {
      on.word(e.textContent ?? "", left - box.left + 8, top - box.top + height / 2, "ink", { size: 14, weight: 600 });
      continue;
    }
    const part = map ? map.vectors() : styled(e);
    for (const [name, value] of Object.entries({ x: left - box.left, y: top - box.top, width, height })) part.setAttribute(name, String(value));
    picture.append(part);
  }
  return picture;
}

// taker makes the buttons.
export function taker(view: () => Seen, state: State): HTMLElement {
  const take = (id: string, text: string, title: string, act: (name: string) => void) => button({ id: `take-${id}`, title }, text, () =>
    act(`${view().id === "fleet" ? "fleet" : `${state.user}-${view().id}-${state.fix + 1}`}`));
  const text = (content: string, type: string) => new Blob([content], { type });
  return make("div", { class: "bar small", role: "group", "aria-label": "Take along" },
    make("span", { class: "soft" }, "Save"),
    take("png", "PNG", "The maps as they are shown. They have true places, unless the truth is hidden", (name) =>
      bitmap(view().maps).toBlob((blob) => blob && save(`${name}.png`, blob))),
    take("svg", "SVG", "Maps and charts as they are shown, as vectors. They have true places, unless the truth is hidden", (name) =>
      save(`${name}.svg`, text(new XMLSerializer().serializeToString(vectors(view())), "image/svg+xml"))),
    take("numbers", "Numbers", "All reports that are computed, as CSV", (name) => {
      const { course, past } = state.peek(state.settings);
      if (course) save(`${name}.csv`, text(numbers(course, past, state.truth), "text/csv"));
    }),
    take("config", "Config", "These settings as the release section of a service's config", () =>
      save("release.yml", text(config(state.settings, state.about.step_s), "application/yaml"))));
}
