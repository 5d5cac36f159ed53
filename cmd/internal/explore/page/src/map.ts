// A map of cells on a canvas: no tiles, nothing from outside. Places are in kilometres east and
// north of the map's south-west corner.

import { Column, Field, Line, MapInfo, Place } from "./api";
import { element } from "./chart";
import { colour, make } from "./look";
import { At, CanvasSurface, Font, Ink, Path, Ramp, Shape, stays, Surface, SVGSurface, wide } from "./surface";

// borders returns the sides between blocks of different votes, in blocks.
export function borders(width: number, height: number, votes: Uint8Array): Shape {
  return stays((path) => votes.forEach((vote, at) => {
    const [column, row] = [at % width, Math.floor(at / width)];
    if (column + 1 < width && vote !== votes[at + 1]) {
      path.moveTo(column + 1, row);
      path.lineTo(column + 1, row + 1);
    }
    if (row + 1 < height && vote !== votes[at + width]) {
      path.moveTo(column, row + 1);
      path.lineTo(column + 1, row + 1);
    }
  }));
}

// region returns the blocks of one vote, in runs of a row.
export function region(width: number, height: number, votes: Uint8Array, vote: number): Shape {
  return stays((path) => {
    for (let row = 0; row < height; row++) {
      for (let column = 0; column < width; column++) {
        if (votes[row * width + column] !== vote) continue;
        const from = column;
        while (column + 1 < width && votes[row * width + column + 1] === vote) column++;
        path.rect(from, row, column + 1 - from, 1);
      }
    }
  });
}

// Outline is what is drawn for orientation: lines, closed ones as areas (holes turn the other way), and names.
export interface Outline { lines: Shape; areas: Shape; names: [string, Place][] }

export function outlined(lines: Line[]): Outline {
  const along = (some: Line[]) => stays((path) => {
    for (const { places } of some) {
      for (let i = 0; i < places.length; i += 2) path[i ? "lineTo" : "moveTo"](places[i]!, places[i + 1]!);
    }
  });
  const mean = (places: number[], axis: number) => places.reduce((sum, x, i) => (i % 2 === axis ? sum + x : sum), 0) * 2 / places.length;
  return {
    lines: along(lines),
    areas: along(lines.filter(({ places: p }) => p.length > 6 && p[0] === p.at(-2) && p[1] === p.at(-1))),
    names: lines.filter(({ name }) => name).slice(0, 1000).map(({ name, places }) => [name, { x: mean(places, 0), y: mean(places, 1) }]),
  };
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
    return this.nearness * Math.min(width / map.width, height / map.height) / map.cell_km;
  }

  changed(): void {
    for (const watcher of this.watchers) watcher();
  }
}

// place is the place of a row, if it has one.
export function place(x: Column, y: Column, i: number): Place | null {
  return typeof x[i] === "number" && typeof y[i] === "number" ? { x: x[i]!, y: y[i]! } : null;
}

// How is how a pen draws, beside the colour and the width of a line.
type How = Pick<Ink, "dash" | "opacity" | "filled">;

// Pen draws in kilometres on a map.
export class Pen {
  constructor(
    private readonly on: Surface,
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
    const [x, y] = [this.width / 2, this.height / 2];
    return [x + (p.x - this.camera.x) * this.scale, y - (p.y - this.camera.y) * this.scale];
  }

  // from is where shapes lie whose units are so many kilometres long, to the north.
  private from(p: Place, side: number): At {
    return [...this.at(p), side * this.scale, -side * this.scale];
  }

  field(field: Field | null, name: string, ramp: Ramp, opacity = 1, side = this.map.cell_km): void {
    if (!field || field.blocks === 0) return;
    side *= field.block;
    this.on.field(field, name, ramp, opacity, this.from({ x: field.column * side, y: field.row * side }, side));
  }

  // outline draws lines and areas for orientation.
  outline(o: Outline): void {
    const all = this.from({ x: 0, y: 0 }, 1);
    this.on.shape(o.areas, { fill: "line", filled: 0.5 }, all);
    this.on.shape(o.lines, { stroke: "street", width: 5, opacity: 0.35 }, all);
    this.on.shape(o.lines, { stroke: "paper", width: 2 }, all);
  }

  // write writes all labels above all signs, and names of places where nothing stands in a corner.
  write(names: Iterable<[string, Place]>): void {
    for (const write of this.words) write();
    for (const [name, p] of names) {
      const [x, y] = this.at(p);
      if (x > 0 && y > 10 && x < this.width && y < this.height) this.word(name, x, y, "soft", { size: 12, weight: 400 }, true);
    }
  }

  // frame draws the edge of the map.
  frame(): void {
    const { width, height, cell_km } = this.map;
    this.on.shape((path) => path.rect(0, 0, width, height), { stroke: "line" }, this.from({ x: 0, y: 0 }, cell_km));
  }

  // blocks draws a shape in blocks.
  blocks(shape: Shape, of: { column: number; row: number; block: number }, ink: Ink): void {
    const side = this.map.cell_km * of.block;
    this.on.shape(shape, ink, this.from({ x: of.column * side, y: of.row * side }, side));
  }

  line(places: Place[], name: string, width: number, how: How & { close?: boolean } = {}): void {
    this.ink((path) => {
      places.forEach((p, i) => path[i ? "lineTo" : "moveTo"](...this.at(p)));
      if (how.close) path.closePath();
    }, name, width, how);
  }

  // way draws where something was at some times. It is broken where nothing came for long.
  way(x: Column, y: Column, times: number[], pause: number, name: string, width: number, opacity: number): void {
    const parts: Place[][] = [[]];
    times.forEach((time, i) => {
      if (i > 0 && time - times[i - 1]! > pause) parts.push([]);
      parts.at(-1)!.push(...[place(x, y, i)].filter((p) => p !== null));
    });
    for (const part of parts) this.line(part, name, width, { opacity });
  }

  private ink(shape: Shape, name: string, width: number, how: How): void {
    this.on.shape(shape, { stroke: name, width, ...how, ...(how.filled ? { fill: name } : {}) });
  }

  ellipse(p: Place, majorKM: number, minorKM: number, azimuth: number, name: string, width: number, how: How = {}): void {
    // A picture turns clockwise from east, an azimuth clockwise from north.
    this.ink((path) => path.ellipse(...this.at(p), majorKM * this.scale, minorKM * this.scale, ((azimuth - 90) * Math.PI) / 180, 0, 2 * Math.PI),
      name, width, how);
  }

  // dots draws many places, without signs: as many as there are pixels for.
  dots(xs: number[], ys: number[], name: string): void {
    this.on.shape((path) => xs.forEach((x, i) => {
      const [east, south] = this.at({ x, y: ys[i]! });
      if (east > -3 && south > -3 && east < this.width + 3 && south < this.height + 3) path.rect(east - 1.5, south - 1.5, 3, 3);
    }), { fill: name });
  }

  // mark draws a sign around a place, on a halo so that it stands out on any ground.
  mark(p: Place, sign: Sign, name: string, size = 8, label = "", where: "right" | "above" | "below" = "right"): void {
    const [x, y] = this.at(p);
    sketch(this.on, [x, y, 1, 1], sign, size, name);
    if (!label) return;
    const [dx, dy] = where === "right" ? [size + 5, 0] : [0, where === "above" ? -size - 9 : size + 11];
    this.words.push(() => this.word(label, x + dx, y + dy, "ink", { size: 13, weight: 600 }, where !== "right"));
  }

  // word writes a label, and leaves it out where it would lie on another one.
  private word(text: string, x: number, y: number, name: string, font: Font, middle: boolean): void {
    const long = wide(text, font);
    const inside = x > this.west && x < this.east; // and is whole then
    y = Math.max(10, Math.min(this.height - 36, y)); // above the ruler
    x = Math.max(this.west + 4, Math.min(this.east - long - 4, middle ? x - long / 2 : x));
    if (!inside || this.labels.some(([l, t, w]) => Math.abs(t - y) < 14 && x < l + w && l < x + long)) return;
    this.labels.push([x, y, long]);
    this.on.word(text, x, y, name, font);
  }
}

// signs are shapes around the origin. They differ in shape, not in colour alone.
const signs: Record<"disc" | "diamond" | "cross" | "dot" | "star", (path: Path, r: number) => void> = {
  disc: (path, r) => path.ellipse(0, 0, r, r, 0, 0, 2 * Math.PI),
  dot: (path, r) => path.ellipse(0, 0, r / 2, r / 2, 0, 0, 2 * Math.PI),
  diamond: (path, r) => corners(path, [0, 1, 2, 3].map((i) => [r * 1.15, (i * Math.PI) / 2])),
  star: (path, r) => corners(path, [...Array(10).keys()].map((i) => [r * (i % 2 ? 0.5 : 1.2), (i * Math.PI) / 5])),
  cross: (path, r) => {
    path.moveTo(-r, 0);
    path.lineTo(r, 0);
    path.moveTo(0, -r);
    path.lineTo(0, r);
  },
};

export type Sign = keyof typeof signs;

// corners goes along corners, given by how far and in which direction they lie.
function corners(path: Path, all: [far: number, angle: number][]): void {
  all.forEach(([far, angle], i) => path[i ? "lineTo" : "moveTo"](far * Math.sin(angle), -far * Math.cos(angle)));
  path.closePath();
}

// sketch draws a sign.
export function sketch(on: Surface, at: At, sign: Sign, r: number, name: string): void {
  const shape = (path: Path) => signs[sign](path, r);
  const hollow = sign === "cross";
  on.shape(shape, { stroke: "paper", width: hollow ? 6 : 4 }, at);
  on.shape(shape, hollow ? { stroke: name, width: 3 } : { fill: name }, at);
}

// proportion is the width through the height of a card that has a map.
export function proportion(ratio: number): number {
  return Math.max(0.6, Math.min(2.2, ratio));
}

// Half is what a picture shows, or a half of one that is split. Without the shade of streets it is
// plain: among zones that would look as if somebody were there.
export interface Half { name: string; scene: (pen: Pen) => void; plain?: boolean }

// MapView is a canvas that shows a scene and can be moved by pointer, wheel and keys.
export class MapView {
  private map: MapInfo | null = null;
  private halves: Half[] = []; // the second one is right of where the picture is split
  private readonly names = [make("div", { class: "corner", hidden: "" }), make("div", { class: "corner right", hidden: "" })];
  private readonly edge = make("input", { type: "range", class: "edge", min: "0", max: "100", value: "50", hidden: "", "aria-label": "Where the picture is split" });
  private waiting = false;
  // picked is called with a place that was clicked.
  picked: ((p: Place) => void) | null = null;
  // closer is called when another part of a map should be fetched, which is too large to be sent
  // cell by cell; the part is as the server takes it.
  closer: ((view: string) => void) | null = null;
  // opened is called when a map is seen for the first time.
  opened: ((camera: Camera) => void) | null = null;
  outline: Outline | null = null; // for orientation
  private view = "";
  private pausing: ReturnType<typeof setTimeout> | null = null;
  // place says where the pointer is, in degrees and in cells, and else which town this is.
  private readonly place = make("div", { class: "under", "aria-hidden": "true" });
  static town = "";

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

  // show shows a scene, or two of them beside each other.
  show(map: MapInfo, ...halves: Half[]): void {
    this.map = map;
    this.canvas.style.setProperty("--ratio", String(proportion(map.width / map.height)));
    this.halves = halves;
    this.names.forEach((name, i) => (name.textContent = `${"AB"[i]}: ${halves[i]?.name.replaceAll(" = ", "\u00a0=\u00a0")}`));
    for (const part of [...this.names, this.edge]) part.hidden = halves.length < 2;
    if (this.camera.fit(map)) this.opened?.(this.camera);
    if (!this.place.isConnected) this.say(MapView.town);
    this.redraw();
  }

  fit(): void {
    if (this.map) this.camera.fit(this.map, true);
  }

  zoom(factor: number, x?: number, y?: number): void {
    const box = this.canvas.getBoundingClientRect();
    const c = this.camera;
    const [east, south] = [box.width / 2, box.height / 2];
    const [dx, dy] = [(x ?? east) - east, (y ?? south) - south];
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
    this.paint(new CanvasSurface(c), box);
    if (this.closer) this.approach(box.width, box.height);
  }

  // vectors returns what is seen.
  vectors(): SVGElement {
    const on = new SVGSurface(element("svg", {}));
    this.paint(on, this.canvas.getBoundingClientRect());
    return on.svg;
  }

  private paint(on: Surface, { width, height }: DOMRect): void {
    on.shape((path) => path.rect(0, 0, width + 1, height + 1), { fill: "paper" }); // a part of a pixel too
    const [map, at] = [this.map!, this.halves.length > 1 ? width * Number(this.edge.value) / 100 : width];
    for (const [i, { scene, plain }] of this.halves.entries()) {
      const [from, to] = i ? [at, width] : [0, at];
      on.within(from, to - from, height, () => {
        const pen = new Pen(on, this.camera, map, width, height, this.scale, from, to);
        if (!plain) pen.field(map.popularity, "street", "root", 0.85);
        if (this.outline) pen.outline(this.outline);
        pen.frame();
        scene(pen);
        pen.write(width > 260 ? this.outline?.names ?? [] : []);
      });
      if (i) on.shape((path) => path.rect(at - 1, 0, 2, height), { fill: "ink" });
    }
    this.ruler(on, width, height);
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
  private ruler(on: Surface, width: number, height: number): void {
    const ten = 10 ** Math.floor(Math.log10(width / 3 / this.scale));
    const km = ten * ([5, 2].find((k) => ten * k * this.scale < width / 3) ?? 1);
    const [west, south, long] = [14, height - 14, km * this.scale];
    for (const [stroke, thick] of [["paper", 5], ["ink", 1.5]] as const) {
      on.shape((path) => {
        path.moveTo(west, south - 5);
        path.lineTo(west, south);
        path.lineTo(west + long, south);
        path.lineTo(west + long, south - 5);
      }, { stroke, width: thick });
    }
    on.word(km >= 1 ? `${km} km` : `${Math.round(km * 1000)} m`, west + 6, south - 12, "ink", { size: 12, weight: 400 });
  }

  // under is the place under the pointer.
  private under(e: PointerEvent): Place {
    const box = this.canvas.getBoundingClientRect();
    return { x: this.camera.x + (e.offsetX - box.width / 2) / this.scale, y: this.camera.y - (e.offsetY - box.height / 2) / this.scale };
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
    this.canvas.addEventListener("pointerleave", () => this.say(MapView.town));
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
