// What pens draw on: a canvas, or vectors that somebody saves.

import { bytes, Field } from "./api";
import { element } from "./chart";
import { colour } from "./look";

// Path is what a shape goes along; the paths of a canvas are some.
export type Path = Pick<CanvasPath, "moveTo" | "lineTo" | "closePath" | "rect" | "ellipse">;
export type Shape = (path: Path) => void;

// Ink is how a shape is drawn. Colours are names of style.css, lengths are pixels.
export interface Ink { fill?: string; filled?: number; stroke?: string; width?: number; dash?: number[]; opacity?: number }

// At is where the origin of a shape lies, and how long its units are to the east and to the south.
export type At = [x: number, y: number, east: number, south: number];

// Ramp says how a value becomes opaque: "root" shows small masses too, "plain" is in proportion.
export type Ramp = "root" | "plain";

export interface Surface {
  shape(shape: Shape, ink: Ink, at?: At): void;
  field(field: Field, name: string, ramp: Ramp, opacity: number, at: At): void;
  word(text: string, x: number, y: number, name: string, font: Font): void; // its left end, half its height
  within(x: number, width: number, height: number, draw: () => void): void; // cuts off what lies beside
}

export interface Font { size: number; weight: number }

const family = "system-ui, sans-serif";
const halo = 4; // of words, as wide as that in pixels

const measuring = document.createElement("canvas").getContext("2d")!;

// wide is how wide a word is, in pixels.
export function wide(text: string, font: Font): number {
  measuring.font = `${font.weight} ${font.size}px ${family}`;
  return measuring.measureText(text).width;
}

// opacities calls each with the blocks of a field, and how opaque they are, up to 255.
function opacities(field: Field, ramp: Ramp, each: (column: number, row: number, opacity: number) => void): void {
  const raw = bytes(field.data);
  const power = colour.scheme.matches ? 0.65 : 1; // so that cells at the edge of a belief are seen
  for (let at = 0; at < field.width * field.height; at++) {
    const root = (raw[2 * at]! | (raw[2 * at + 1]! << 8)) / 65535;
    each(at % field.width, Math.floor(at / field.width), 255 * (ramp === "root" ? root ** power : root * root));
  }
}

const pictures = new WeakMap<Field, { canvas: HTMLCanvasElement; key: string }>();

// picture draws a field, one pixel a block, north up.
function picture(field: Field, rgb: [number, number, number], ramp: Ramp): HTMLCanvasElement {
  const key = `${rgb} ${ramp}`;
  const kept = pictures.get(field);
  if (kept?.key === key) return kept.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = field.width;
  canvas.height = field.height;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(field.width, field.height);
  opacities(field, ramp, (column, row, opacity) => {
    const to = 4 * ((field.height - 1 - row) * field.width + column);
    [image.data[to], image.data[to + 1], image.data[to + 2]] = rgb;
    image.data[to + 3] = opacity;
  });
  context.putImageData(image, 0, 0);
  pictures.set(field, { canvas, key });
  return canvas;
}

const traced = new WeakMap<Shape, Path2D | null>(); // of shapes that stay

// stays says that a shape will be drawn again and again.
export function stays(shape: Shape): Shape {
  traced.set(shape, null);
  return shape;
}

function trace(shape: Shape): Path2D {
  const kept = traced.get(shape);
  if (kept) return kept;
  const path = new Path2D();
  shape(path);
  if (kept === null) traced.set(shape, path);
  return path;
}

export class CanvasSurface implements Surface {
  constructor(private readonly c: CanvasRenderingContext2D) {}

  shape(shape: Shape, ink: Ink, [x, y, east, south]: At = [0, 0, 1, 1]): void {
    const { c } = this;
    const path = trace(shape);
    c.save();
    c.translate(x, y);
    c.scale(east, south);
    if (ink.fill) {
      c.fillStyle = colour.css(ink.fill);
      c.globalAlpha = ink.filled ?? 1;
      c.fill(path);
    }
    if (ink.stroke) {
      c.strokeStyle = colour.css(ink.stroke);
      c.globalAlpha = ink.opacity ?? 1;
      c.lineWidth = (ink.width ?? 1) / east;
      c.setLineDash((ink.dash ?? []).map((d) => d / east));
      c.lineJoin = "round";
      c.stroke(path);
    }
    c.restore();
  }

  field(field: Field, name: string, ramp: Ramp, opacity: number, [x, y, east, south]: At): void {
    const { c } = this;
    c.save();
    c.globalAlpha = opacity;
    c.imageSmoothingEnabled = false;
    c.drawImage(picture(field, colour.rgb(name), ramp), x, y + south * field.height, east * field.width, -south * field.height);
    c.restore();
  }

  word(text: string, x: number, y: number, name: string, font: Font): void {
    const { c } = this;
    c.font = `${font.weight} ${font.size}px ${family}`;
    c.textBaseline = "middle";
    c.lineJoin = "round";
    c.lineWidth = halo;
    c.strokeStyle = colour.css("paper");
    c.fillStyle = colour.css(name);
    c.strokeText(text, x, y);
    c.fillText(text, x, y);
  }

  within(x: number, width: number, height: number, draw: () => void): void {
    this.c.save();
    this.c.beginPath();
    this.c.rect(x, 0, width, height);
    this.c.clip();
    draw();
    this.c.restore();
  }
}

const short = (x: number) => String(Number(x.toFixed(3)));

// Written is a path as SVG writes it.
class Written implements Path {
  d = "";
  private add(letter: string, ...numbers: number[]): void {
    this.d += letter + numbers.map(short).join(" ");
  }

  moveTo(x: number, y: number): void { this.add("M", x, y); }
  lineTo(x: number, y: number): void { this.add("L", x, y); }
  closePath(): void { this.add("Z"); }

  rect(x: number, y: number, width: number, height: number): void {
    this.add("M", x, y);
    this.d += `h${short(width)}v${short(height)}h${short(-width)}Z`;
  }

  // ellipse goes all the way round.
  ellipse(x: number, y: number, a: number, b: number, turn: number): void {
    const [dx, dy, degrees] = [a * Math.cos(turn), a * Math.sin(turn), (turn * 180) / Math.PI];
    this.add("M", x + dx, y + dy);
    for (const side of [-1, 1]) this.add("A", a, b, degrees, 0, 1, x + side * dx, y + side * dy);
  }
}

export class SVGSurface implements Surface {
  private into: SVGElement;

  constructor(readonly svg: SVGElement) {
    this.into = svg;
  }

  shape(shape: Shape, ink: Ink, [x, y, east, south]: At = [0, 0, 1, 1]): void {
    const path = new Written();
    shape(path);
    this.into.append(element("path", {
      d: path.d, transform: `translate(${short(x)} ${short(y)}) scale(${east} ${south})`,
      fill: ink.fill ? colour.css(ink.fill) : "none", "fill-opacity": ink.filled ?? 1,
      stroke: ink.stroke ? colour.css(ink.stroke) : "none", "stroke-opacity": ink.opacity ?? 1, "stroke-width": (ink.width ?? 1) / east,
      "stroke-dasharray": (ink.dash ?? []).map((d) => d / east).join(" ") || "none", "stroke-linejoin": "round",
    }));
  }

  // field draws blocks of about the same opacity as one shape.
  field(field: Field, name: string, ramp: Ramp, opacity: number, at: At): void {
    const levels: [column: number, row: number][][] = Array.from({ length: 65 }, () => []);
    opacities(field, ramp, (column, row, value) => levels[Math.round(value / 4)]!.push([column, row]));
    levels.forEach((blocks, level) => {
      if (level === 0 || blocks.length === 0) return;
      this.shape((path) => blocks.forEach(([column, row]) => path.rect(column, row, 1, 1)), { fill: name, filled: opacity * level * 4 / 255 }, at);
      (this.into.lastChild as SVGElement).setAttribute("shape-rendering", "crispEdges");
    });
  }

  word(text: string, x: number, y: number, name: string, font: Font): void {
    this.into.append(element("text", {
      x: short(x), y: short(y), "dominant-baseline": "central", "font-family": family, "font-size": font.size, "font-weight": font.weight,
      fill: colour.css(name), stroke: colour.css("paper"), "stroke-width": halo, "stroke-linejoin": "round", "paint-order": "stroke",
    }, text));
  }

  within(x: number, width: number, height: number, draw: () => void): void {
    const around = this.into;
    this.into = element("svg", { x, width, height, viewBox: `${x} 0 ${width} ${height}` });
    around.append(this.into);
    draw();
    this.into = around;
  }
}
