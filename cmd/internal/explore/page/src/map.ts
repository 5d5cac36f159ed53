// A map of cells on a canvas: no tiles, nothing from outside. Places are in kilometres east and
// north of the map's south-west corner.

import { Blocks, bytes, Field, Line, MapInfo, Place } from "./api";
import { colour, make } from "./look";

// Ramp says how a value becomes opaque: "root" shows small masses too, "plain" is in proportion.
export type Ramp = "root" | "plain";

interface Picture { canvas: HTMLCanvasElement; key: string }

const pictures = new WeakMap<Field, Picture>();

// picture draws a field, one pixel a block, north up.
function picture(field: Field, rgb: [number, number, number], ramp: Ramp): HTMLCanvasElement | null {
  if (field.blocks === 0) return null;
  const key = `${rgb} ${ramp}`;
  const kept = pictures.get(field);
  if (kept?.key === key) return kept.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = field.width;
  canvas.height = field.height;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(field.width, field.height);
  const raw = bytes(field.data);
  const data = image.data;
  for (let row = 0; row < field.height; row++) {
    let from = 2 * row * field.width;
    let to = 4 * (field.height - 1 - row) * field.width;
    for (let column = 0; column < field.width; column++, from += 2, to += 4) {
      const root = (raw[from]! | (raw[from + 1]! << 8)) / 65535;
      data[to] = rgb[0];
      data[to + 1] = rgb[1];
      data[to + 2] = rgb[2];
      data[to + 3] = 255 * (ramp === "root" ? root : root * root);
    }
  }
  context.putImageData(image, 0, 0);
  pictures.set(field, { canvas, key });
  return canvas;
}

// borders returns the sides between blocks of different votes, as a path in blocks.
export function borders(width: number, height: number, votes: Uint8Array): Path2D {
  const path = new Path2D();
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const at = row * width + column;
      if (column + 1 < width && votes[at] !== votes[at + 1]) {
        path.moveTo(column + 1, row);
        path.lineTo(column + 1, row + 1);
      }
      if (row + 1 < height && votes[at] !== votes[at + width]) {
        path.moveTo(column, row + 1);
        path.lineTo(column + 1, row + 1);
      }
    }
  }
  return path;
}

// region returns the blocks of one vote, as a path in blocks, in runs of a row.
export function region(width: number, height: number, votes: Uint8Array, vote: number): Path2D {
  const path = new Path2D();
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      if (votes[row * width + column] !== vote) continue;
      const from = column;
      while (column + 1 < width && votes[row * width + column + 1] === vote) column++;
      path.rect(from, row, column + 1 - from, 1);
    }
  }
  return path;
}

// Outline is what is drawn for orientation: lines, closed ones as areas (holes turn the other way), and names.
export interface Outline { lines: Path2D; areas: Path2D; names: [string, Place][] }

export function outlined(lines: Line[]): Outline {
  const o: Outline = { lines: new Path2D(), areas: new Path2D(), names: [] };
  for (const { name, places } of lines) {
    const closed = places.length > 6 && places[0] === places.at(-2) && places[1] === places.at(-1);
    for (let i = 0; i < places.length; i += 2) {
      for (const path of closed ? [o.lines, o.areas] : [o.lines]) path[i ? "lineTo" : "moveTo"](places[i]!, places[i + 1]!);
    }
    const mean = (axis: number) => places.reduce((sum, x, i) => (i % 2 === axis ? sum + x : sum), 0) * 2 / places.length;
    if (name && o.names.length < 1000) o.names.push([name, { x: mean(0), y: mean(1) }]);
  }
  return o;
}

// Camera is what maps look at: the middle in kilometres, and how many times larger than a map that
// fits its canvas. Maps of different sizes may share one.
export class Camera {
  x = 0;
  y = 0;
  nearness = 1;
  readonly watchers = new Set<() => void>();
  private fitted = "";

  // fit shows a whole map, once for each map unless it is forced. It says whether it did.
  fit(map: MapInfo, force = false): boolean {
    const key = `${map.width * map.cell_km} ${map.height * map.cell_km}`;
    if (this.fitted === key && !force) return false;
    this.fitted = key;
    this.x = (map.width * map.cell_km) / 2;
    this.y = (map.height * map.cell_km) / 2;
    this.nearness = 1;
    this.changed();
    return true;
  }

  // scale is how many pixels a kilometre has on a canvas.
  scale(map: MapInfo, width: number, height: number): number {
    return this.nearness * 0.96 * Math.min(width / map.width, height / map.height) / map.cell_km;
  }

  changed(): void {
    for (const watcher of this.watchers) watcher();
  }
}

// Pen draws in kilometres on the canvas of a map.
export class Pen {
  constructor(
    readonly context: CanvasRenderingContext2D,
    private readonly camera: Camera,
    readonly map: MapInfo,
    private readonly width: number,
    private readonly height: number,
    private readonly scale: number,
    private readonly west = 0, // between which pixels labels lie
    private readonly east = width,
  ) {}

  private readonly words: (() => void)[] = []; // labels to be written
  private readonly labels: [x: number, y: number, long: number][] = []; // that stand already

  at(p: Place): [number, number] {
    return [
      this.width / 2 + (p.x - this.camera.x) * this.scale,
      this.height / 2 - (p.y - this.camera.y) * this.scale,
    ];
  }

  field(field: Field | null, name: string, ramp: Ramp, opacity = 1, side = this.map.cell_km): void {
    const shown = field && picture(field, colour.rgb(name), ramp);
    if (!field || !shown) return;
    side *= field.block;
    const [x, y] = this.at({ x: field.column * side, y: (field.row + field.height) * side });
    const c = this.context;
    c.save();
    c.globalAlpha = opacity;
    c.imageSmoothingEnabled = false;
    const k = side * this.scale;
    c.drawImage(shown, x, y, field.width * k, field.height * k);
    c.restore();
  }

  // outline draws lines and areas for orientation.
  outline(o: Outline): void {
    const c = this.context;
    const [x, y] = this.at({ x: 0, y: 0 });
    c.save();
    c.translate(x, y);
    c.scale(this.scale, -this.scale);
    c.fillStyle = colour.css("line");
    c.strokeStyle = colour.css("soft");
    c.globalAlpha = 0.5;
    c.fill(o.areas);
    c.lineWidth = 1.2 / this.scale;
    c.lineJoin = "round";
    c.stroke(o.lines);
    c.restore();
  }

  // write writes all labels above all signs, and names of places where nothing stands in a corner.
  write(names: Iterable<[string, Place]>): void {
    for (const write of this.words) write();
    for (const [name, p] of names) {
      const [x, y] = this.at(p);
      if (x > 0 && y > 40 && x < this.width && y < this.height - 44) this.word(name, x, y, "soft", "12px", true);
    }
  }

  // frame draws the edge of the map.
  frame(): void {
    const [x, y] = this.at({ x: 0, y: this.map.height * this.map.cell_km });
    const k = this.map.cell_km * this.scale;
    this.context.strokeStyle = colour.css("line");
    this.context.lineWidth = 1;
    this.context.strokeRect(x, y, this.map.width * k, this.map.height * k);
  }

  // blocks draws a path in blocks.
  blocks(path: Path2D, of: Blocks, name: string, how: { width?: number; fill?: number }): void {
    const c = this.context;
    const side = this.map.cell_km * of.block;
    const [x, y] = this.at({ x: of.column * side, y: of.row * side });
    const k = side * this.scale;
    c.save();
    c.translate(x, y);
    c.scale(k, -k);
    if (how.fill) {
      c.globalAlpha = how.fill;
      c.fillStyle = colour.css(name);
      c.fill(path);
    } else {
      c.strokeStyle = colour.css(name);
      c.lineWidth = (how.width ?? 1) / k;
      c.lineCap = "square";
      c.stroke(path);
    }
    c.restore();
  }

  line(places: Place[], name: string, width: number, how: { dash?: number[]; close?: boolean; opacity?: number; fill?: number } = {}): void {
    if (places.length === 0) return;
    const c = this.context;
    c.save();
    c.beginPath();
    places.forEach((p, i) => {
      const [x, y] = this.at(p);
      if (i === 0) c.moveTo(x, y);
      else c.lineTo(x, y);
    });
    if (how.close) c.closePath();
    this.ink(name, width, how);
  }

  // ink fills and strokes the path that was begun after a save.
  private ink(name: string, width: number, how: { dash?: number[]; opacity?: number; fill?: number }): void {
    const c = this.context;
    c.fillStyle = c.strokeStyle = colour.css(name);
    c.globalAlpha = how.fill ?? 0;
    if (how.fill) c.fill();
    c.globalAlpha = how.opacity ?? 1;
    c.setLineDash(how.dash ?? []);
    c.lineJoin = "round";
    c.lineWidth = width;
    c.stroke();
    c.restore();
  }

  ellipse(p: Place, majorKM: number, minorKM: number, azimuth: number, name: string, width: number, how: { dash?: number[]; fill?: number } = {}): void {
    const c = this.context;
    const [x, y] = this.at(p);
    const k = this.scale;
    c.save();
    c.beginPath();
    // The canvas turns clockwise from east, an azimuth clockwise from north.
    c.ellipse(x, y, majorKM * k, minorKM * k, ((azimuth - 90) * Math.PI) / 180, 0, 2 * Math.PI);
    this.ink(name, width, how);
  }

  // dots draws many places, without signs: as many as there are pixels for.
  dots(xs: number[], ys: number[], name: string): void {
    const c = this.context;
    c.fillStyle = colour.css(name);
    for (let i = 0; i < xs.length; i++) {
      const [x, y] = this.at({ x: xs[i]!, y: ys[i]! });
      if (x > -3 && y > -3 && x < this.width + 3 && y < this.height + 3) c.fillRect(x - 1.5, y - 1.5, 3, 3);
    }
  }

  // mark draws a sign around a place, on a halo so that it stands out on any ground.
  mark(p: Place, sign: Sign, name: string, size = 8, label = "", where: "right" | "above" | "below" = "right"): void {
    const c = this.context;
    const [x, y] = this.at(p);
    c.save();
    c.translate(x, y);
    sketch(c, sign, size, colour.css(name), colour.css("paper"));
    c.restore();
    if (!label) return;
    const [dx, dy] = where === "right" ? [size + 5, 0] : [0, where === "above" ? -size - 9 : size + 11];
    this.words.push(() => this.word(label, x + dx, y + dy, "ink", "600 13px", where !== "right"));
  }

  // word writes a label at a place of the canvas, and leaves it out where it would lie on another one.
  private word(text: string, x: number, y: number, name: string, font: string, middle: boolean): void {
    const c = this.context;
    c.save();
    c.font = `${font} system-ui, sans-serif`;
    c.textBaseline = "middle";
    c.lineWidth = 4;
    c.lineJoin = "round";
    c.strokeStyle = colour.css("paper");
    c.fillStyle = colour.css(name);
    const long = c.measureText(text).width;
    const inside = x > this.west && x < this.east; // and is whole then
    x = Math.max(this.west + 4, Math.min(this.east - long - 4, middle ? x - long / 2 : x));
    if (inside && !this.labels.some(([l, t, w]) => Math.abs(t - y) < 14 && x < l + w && l < x + long)) {
      this.labels.push([x, y, long]);
      c.strokeText(text, x, y);
      c.fillText(text, x, y);
    }
    c.restore();
  }
}

export type Sign = "disc" | "diamond" | "cross" | "dot" | "star";

// sketch draws a sign around the origin. Signs differ in shape, not in colour alone.
export function sketch(c: CanvasRenderingContext2D, sign: Sign, r: number, ink: string, halo: string): void {
  const shape = new Path2D();
  switch (sign) {
    case "disc":
      shape.arc(0, 0, r, 0, 2 * Math.PI);
      break;
    case "dot":
      shape.arc(0, 0, r / 2, 0, 2 * Math.PI);
      break;
    case "diamond":
      shape.moveTo(0, -r * 1.15);
      shape.lineTo(r * 1.15, 0);
      shape.lineTo(0, r * 1.15);
      shape.lineTo(-r * 1.15, 0);
      shape.closePath();
      break;
    case "cross":
      shape.moveTo(-r, 0);
      shape.lineTo(r, 0);
      shape.moveTo(0, -r);
      shape.lineTo(0, r);
      break;
    case "star":
      for (let i = 0; i < 10; i++) {
        const radius = i % 2 ? r * 0.5 : r * 1.2;
        const angle = (i * Math.PI) / 5;
        shape.lineTo(radius * Math.sin(angle), -radius * Math.cos(angle));
      }
      shape.closePath();
      break;
  }
  const hollow = sign === "cross";
  c.lineJoin = "round";
  c.strokeStyle = halo;
  c.lineWidth = hollow ? 6 : 4;
  c.stroke(shape);
  if (hollow) {
    c.strokeStyle = ink;
    c.lineWidth = 3;
    c.stroke(shape);
  } else {
    c.fillStyle = ink;
    c.fill(shape);
  }
}

// Half is what a half of a split picture shows.
export interface Half { name: string; map: MapInfo; scene: (pen: Pen) => void }

// MapView is a canvas that shows a scene and can be moved by pointer, wheel and keys.
export class MapView {
  private map: MapInfo | null = null;
  private scene: (pen: Pen) => void = () => {};
  private other: Half | null = null; // right of where the picture is split
  private readonly names = [make("div", { class: "corner", hidden: "" }), make("div", { class: "corner right", hidden: "" })];
  private readonly edge = make("input", { type: "range", class: "edge", min: "0", max: "100", value: "50", hidden: "", "aria-label": "Where the picture is split" });
  private waiting = false;
  // picked is called with a place that was clicked.
  picked: ((p: Place) => void) | null = null;
  // closer is called when another part of a map should be fetched, which is too large to be sent
  // cell by cell; the part is as the server takes it.
  closer: ((view: string) => void) | null = null;
  // opened is called when a map is seen for the first time, whole.
  opened: ((camera: Camera) => void) | null = null;
  outline: Outline | null = null; // for orientation
  private view = "";
  private pausing: ReturnType<typeof setTimeout> | null = null;
  // place says where the pointer is, in degrees and in cells, and else which town this is.
  private readonly place = make("div", { class: "under", "aria-hidden": "true" });
  town = "";

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly camera: Camera = new Camera(),
  ) {
    camera.watchers.add(() => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(canvas);
    colour.watchers.add(() => this.redraw());
    this.listen();
  }

  // splitter makes what a picture of two settings needs.
  splitter(): HTMLElement[] {
    this.edge.addEventListener("input", () => this.redraw());
    return [...this.names, this.edge];
  }

  // show shows a scene, and another one beside if there are two: with the name of the first.
  show(map: MapInfo, scene: (pen: Pen) => void, two: [name: string, other: Half] | null = null): void {
    this.map = map;
    this.scene = scene;
    this.other = two?.[1] ?? null;
    this.names[0]!.textContent = `A: ${two?.[0] ?? ""}`;
    this.names[1]!.textContent = `B: ${this.other?.name ?? ""}`;
    for (const part of [...this.names, this.edge]) part.hidden = !two;
    if (this.camera.fit(map)) this.opened?.(this.camera);
    if (!this.place.isConnected) this.say(this.town);
    this.redraw();
  }

  fit(): void {
    if (this.map) this.camera.fit(this.map, true);
  }

  zoom(factor: number, x?: number, y?: number): void {
    const box = this.canvas.getBoundingClientRect();
    const dx = (x ?? box.width / 2) - box.width / 2;
    const dy = (y ?? box.height / 2) - box.height / 2;
    const c = this.camera;
    const before = this.scale;
    c.nearness = Math.min(1e4, Math.max(0.1, c.nearness * factor));
    c.x += dx / before - dx / this.scale;
    c.y -= dy / before - dy / this.scale;
    c.changed();
  }

  redraw(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  // scale is how many pixels a kilometre has here.
  private get scale(): number {
    const box = this.canvas.getBoundingClientRect();
    return this.map ? this.camera.scale(this.map, box.width, box.height) : 1;
  }

  private draw(): void {
    const box = this.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(box.width * ratio);
    const height = Math.round(box.height * ratio);
    if (width === 0 || !this.map) return;
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    const c = this.canvas.getContext("2d")!;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = colour.css("paper");
    c.fillRect(0, 0, box.width, box.height);
    const at = this.other ? box.width * Number(this.edge.value) / 100 : box.width;
    const half = (from: number, width: number, map: MapInfo, scene: (pen: Pen) => void) => {
      c.save();
      c.beginPath();
      c.rect(from, 0, width, box.height);
      c.clip();
      const pen = new Pen(c, this.camera, map, box.width, box.height, this.scale, from, from + width);
      pen.field(map.popularity, "street", "root", 0.85);
      if (this.outline) pen.outline(this.outline);
      pen.frame();
      scene(pen);
      pen.write(this.outline?.names ?? []);
      c.restore();
    };
    half(0, at, this.map, this.scene);
    if (this.other) {
      half(at, box.width - at, this.other.map, this.other.scene);
      c.fillStyle = colour.css("ink");
      c.fillRect(at - 1, 0, 2, box.height);
    }
    this.ruler(c, box.width, box.height);
    if (this.closer) this.approach(box.width, box.height);
  }

  // approach asks for finer blocks, or for others, when the camera rests. There is a margin around
  // what is seen, so that it need not ask after each small move.
  private approach(width: number, height: number): void {
    const map = this.map!;
    if (this.view === "" && map.popularity.block === 1) return;
    if (this.pausing) clearTimeout(this.pausing);
    this.pausing = setTimeout(() => {
      const c = this.camera;
      const [w, h] = [width / this.scale / 2, height / this.scale / 2];
      const all = w * 2 >= 0.7 * map.width * map.cell_km && h * 2 >= 0.7 * map.height * map.cell_km;
      const [west, south, east, north] = this.view.split(",").map(Number);
      const inside = this.view !== "" && c.x - w >= west! && c.x + w <= east! && c.y - h >= south! && c.y + h <= north!;
      const fine = inside && (map.popularity.block === 1 || 2 * w > (east! - west!) / 2.5);
      if (all ? this.view === "" : fine) return;
      this.view = all ? "" : [c.x - 1.5 * w, c.y - 1.5 * h, c.x + 1.5 * w, c.y + 1.5 * h].map((x) => x.toFixed(3)).join();
      this.closer?.(this.view);
    }, 200);
  }

  // ruler draws how long a kilometre is.
  private ruler(c: CanvasRenderingContext2D, width: number, height: number): void {
    const ten = 10 ** Math.floor(Math.log10(width / 3 / this.scale));
    const km = ten * ([5, 2].find((k) => ten * k * this.scale < width / 3) ?? 1);
    const long = km * this.scale;
    const text = km >= 1 ? `${km} km` : `${Math.round(km * 1000)} m`;
    c.save();
    c.translate(14, height - 14);
    for (const [style, thick] of [[colour.css("paper"), 5], [colour.css("ink"), 1.5]] as const) {
      c.strokeStyle = style;
      c.lineWidth = thick;
      c.beginPath();
      c.moveTo(0, -5);
      c.lineTo(0, 0);
      c.lineTo(long, 0);
      c.lineTo(long, -5);
      c.stroke();
    }
    c.font = "12px system-ui, sans-serif";
    c.lineWidth = 4;
    c.strokeStyle = colour.css("paper");
    c.strokeText(text, 6, -7);
    c.fillStyle = colour.css("ink");
    c.fillText(text, 6, -7);
    c.restore();
  }

  // under is the place under the pointer.
  private under(e: PointerEvent): Place {
    const box = this.canvas.getBoundingClientRect();
    return {
      x: this.camera.x + (e.offsetX - box.width / 2) / this.scale,
      y: this.camera.y - (e.offsetY - box.height / 2) / this.scale,
    };
  }

  private tell(p: Place): void {
    const map = this.map;
    if (!map) return;
    const [column, row] = [Math.floor(p.x / map.cell_km), Math.floor(p.y / map.cell_km)];
    const latitude = map.south + (p.y / (map.height * map.cell_km)) * (map.north - map.south);
    const longitude = map.west + (p.x / (map.width * map.cell_km)) * (map.east - map.west);
    const inside = column >= 0 && row >= 0 && column < map.width && row < map.height;
    this.say(`${latitude.toFixed(4)}, ${longitude.toFixed(4)} · ${inside ? `cell ${column}, ${row}` : "off the map"}`);
  }

  private say(text: string): void {
    this.place.textContent = text;
    this.place.hidden = text === "";
    if (!this.place.isConnected) this.canvas.after(this.place);
  }

  private listen(): void {
    const held = new Map<number, [number, number]>();
    let moved = 0;
    const spread = () => {
      const [a, b] = [...held.values()];
      return a && b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0;
    };
    this.canvas.addEventListener("pointerdown", (e) => {
      this.canvas.setPointerCapture(e.pointerId);
      held.set(e.pointerId, [e.offsetX, e.offsetY]);
      if (held.size === 1) moved = 0;
    });
    this.canvas.addEventListener("pointerleave", () => this.say(this.town));
    this.canvas.addEventListener("pointermove", (e) => {
      this.tell(this.under(e));
      const last = held.get(e.pointerId);
      if (!last) return;
      const before = spread();
      held.set(e.pointerId, [e.offsetX, e.offsetY]);
      const dx = e.offsetX - last[0];
      const dy = e.offsetY - last[1];
      moved += Math.abs(dx) + Math.abs(dy);
      this.camera.x -= dx / this.scale / held.size;
      this.camera.y += dy / this.scale / held.size;
      if (before > 0) this.zoom(spread() / before, e.offsetX, e.offsetY);
      else this.camera.changed();
    });
    const release = (e: PointerEvent) => {
      const was = held.delete(e.pointerId);
      if (e.type !== "pointerup" || !was || moved > 6 || !this.picked) return;
      this.picked(this.under(e));
    };
    this.canvas.addEventListener("pointerup", release);
    this.canvas.addEventListener("pointercancel", release);
    this.canvas.addEventListener(
      "wheel",
      (e) => {
        e.preventDefault();
        this.zoom(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY);
      },
      { passive: false },
    );
  }
}
