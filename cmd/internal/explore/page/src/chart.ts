// A line chart in SVG.

import { Column } from "./api";
import { minute, nearest } from "./look";

// Series is a line; its colour is a name of style.css.
export interface Series { values: Column; colour: string; dash?: string }

export interface Chart {
  label: string; // what a screen reader says
  times: number[];
  // pause is how long nothing may come, ms, before a line is broken.
  pause: number;
  series: Series[];
  bound?: number; // of a band between -bound and bound
  scale?: (y: number) => number; // of the axis; nothing: in proportion
  width: number; height: number;
  low: number; high: number;
  tick: (y: number) => string;
  ticks: number[];
  now: number; // index
  onPick: (index: number) => void;
}

const left = 72;
const right = 14;
const top = 12;
const bottom = 30;

const space = "http://www.w3.org/2000/svg";

export function element(name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const e = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, String(value));
  if (text) e.textContent = text;
  return e;
}

// draw returns the chart as an element.
export function draw(chart: Chart): SVGElement {
  // As wide as it is shown, so that its words keep their size on a phone.
  const width = Math.min(chart.width, Math.max(280, document.documentElement.clientWidth - 60));
  const { height } = chart;
  const svg = element("svg", {
    viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": chart.label,
  });
  const n = chart.times.length;
  const first = chart.times[0] ?? 0;
  const span = Math.max(1, (chart.times[n - 1] ?? 1) - first);
  const x = (i: number) => left + ((chart.times[i]! - first) / span) * (width - left - right);
  const f = chart.scale ?? ((v: number) => v);
  const y = (v: number) => top + ((f(chart.high) - f(v)) / (f(chart.high) - f(chart.low))) * (height - top - bottom);
  if (chart.bound) {
    svg.append(element("rect", { x: left, y: y(chart.bound), width: width - left - right, height: y(-chart.bound) - y(chart.bound), class: "band" }));
  }
  const labels: number[] = []; // where they stand: none lies on another
  for (const t of chart.ticks) {
    if (t < chart.low || t > chart.high || labels.some((at) => Math.abs(at - y(t)) < 13)) continue;
    labels.push(y(t));
    svg.append(element("line", { x1: left, x2: width - right, y1: y(t), y2: y(t), class: "axis" }));
    svg.append(element("text", { x: left - 8, y: y(t) + 4, "text-anchor": "end" }, chart.tick(t)));
  }
  const marks = width < 500 ? 2 : 4;
  for (let k = 0; k <= marks; k++) {
    const at = left + (k / marks) * (width - left - right);
    const anchor = k === 0 ? "start" : k === marks ? "end" : "middle";
    svg.append(element("text", { x: at, y: height - 8, "text-anchor": anchor },
      minute(first + (k / marks) * span, span) + (k === 0 ? " UTC" : "")));
  }
  for (const s of chart.series) {
    let path = "";
    let pen = "M";
    s.values.forEach((v, i) => {
      if (v === null || v === undefined || i >= n) { // a longer column has come before its times
        pen = "M";
        return;
      }
      if (i > 0 && chart.times[i]! - chart.times[i - 1]! > chart.pause) pen = "M";
      path += `${pen}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = "L";
    });
    svg.append(element("path", { d: path, class: "series", stroke: `var(--${s.colour})`, "stroke-dasharray": s.dash || "none" }));
  }
  if (n > 0) {
    const at = x(Math.min(chart.now, n - 1));
    svg.append(element("line", { x1: at, x2: at, y1: top, y2: height - bottom, class: "now" }));
  }
  svg.addEventListener("click", (e) => {
    const box = svg.getBoundingClientRect();
    const time = first + (((e as MouseEvent).clientX - box.left) / box.width * width - left) /
      (width - left - right) * span;
    chart.onPick(nearest(chart.times, time));
  });
  return svg;
}

// ticks returns round numbers between two numbers.
export function ticks(low: number, high: number, about: number): number[] {
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw) ?? raw;
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step / 1e6; t += step) found.push(t);
  return found;
}
