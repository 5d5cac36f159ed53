// Colours, elements and words that the views share.

// The colours are those of style.css, so that light and dark have one source. They are of the
// palette of Okabe and Ito, which colour-blind people tell apart.
class Colours {
  readonly watchers = new Set<() => void>();
  private known = new Map<string, string>();
  readonly scheme = matchMedia("(prefers-color-scheme: dark)");

  constructor() {
    this.scheme.addEventListener("change", () => {
      this.known.clear();
      for (const watcher of this.watchers) watcher();
    });
  }

  css(name: string): string {
    let value = this.known.get(name);
    if (!value) {
      value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
      this.known.set(name, value);
    }
    return value;
  }

  rgb(name: string): [number, number, number] {
    const n = parseInt(this.css(name).slice(1), 16);
    return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
  }
}

export const colour = new Colours();

type Child = Node | string | null;

// make makes an element.
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((c): c is Node | string => c !== null));
  return element;
}

// button makes a button that does something.
export function button(attributes: Record<string, string>, text: string, act: () => void): HTMLButtonElement {
  const b = make("button", { type: "button", ...attributes }, text);
  b.addEventListener("click", act);
  return b;
}

// fact makes a number with its name, for a list of them.
export function fact(name: string, value: string, title = ""): HTMLElement {
  return make("div", title ? { title } : {}, make("dt", {}, name), make("dd", {}, value));
}

// get returns the element of an id, which the page has.
export function get<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

// whileShown returns what begins to look, again and again while an element is shown.
export function whileShown(
  element: () => HTMLElement, every: number, look: () => Promise<void>, failed: (error: unknown) => void,
): () => void {
  let looking = false;
  const again = async () => {
    looking = !element().hidden;
    if (!looking) return;
    try {
      await look();
    } catch (error) {
      failed(error);
    }
    setTimeout(() => void again(), every);
  };
  return () => {
    if (!looking) void again();
  };
}

// metres writes a length given in kilometres, if there is one.
export function metres(km: number | null | undefined): string {
  if (km === null || km === undefined) return "–";
  const m = km * 1000;
  if (m >= 10_000) return `${(m / 1000).toFixed(0)} km`;
  if (m >= 1000) return `${(m / 1000).toFixed(1)} km`;
  return `${Math.round(m / 10) * 10} m`;
}

// percent writes a probability.
export function percent(p: number): string {
  const x = 100 * p;
  if (x === 0) return "0 %";
  if (x > 0 && x < 0.01) return "less than 0.01 %";
  if (x > 99.9 && x < 100) return "more than 99.9 %";
  return `${x >= 99 ? x.toFixed(1) : x >= 10 ? x.toFixed(0) : x >= 1 ? x.toFixed(1) : x.toFixed(2)} %`;
}

// raised writes the factor e^x.
export function raised(x: number): string {
  const factor = Math.exp(x);
  if (factor >= 1e6) return `10^${Math.floor(x / Math.LN10)}`;
  if (factor >= 100) return Math.round(factor).toLocaleString("en");
  return factor >= 10 ? factor.toFixed(0) : factor.toFixed(1);
}

// sum writes a sum of ε.
export function sum(x: number): string {
  return Number(x.toFixed(2)).toString();
}

// clock writes a time, UTC.
export function clock(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

// minute writes a time of a stretch of time, UTC: with the day where the stretch has several.
export function minute(ms: number, span: number): string {
  return clock(ms).slice(span < 86_400_000 ? 11 : 5, 16);
}

// during writes a length of time, given in seconds.
export function during(seconds: number): string {
  const [n, unit] = seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [seconds / 60, "min"] : [seconds / 3600, "h"];
  return `${sum(n)} ${unit}`;
}

// tall is how high a picture may be of which so many stand beside a map.
export function tall(number: number): number {
  return Math.max(140, Math.min(640, innerHeight - 350) / number - 46);
}

// likelier is the probability that somebody gives a place after odds of 1 : 1 changed by e^x.
export function likelier(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

// nearest is the index of the number that is nearest to a value.
export function nearest(list: number[], value: number): number {
  return list.reduce((best, x, i) => (Math.abs(x - value) < Math.abs(list[best]! - value) ? i : best), 0);
}

export function distance(a: { x: number; y: number }, b: { x: number; y: number }): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

// rich turns *words* into bold ones, so that texts stay readable where they are written.
export function rich(text: string): DocumentFragment {
  const all = document.createDocumentFragment();
  text.split("*").forEach((part, i) => all.append(i % 2 ? make("strong", {}, part) : part));
  return all;
}
