// A sanitized topic, as everybody with the public model may see it.

import { ask, Column, MapInfo } from "./api";
import { clock, fact, make, metres, nearest, rich, sum, whileShown } from "./look";
import { MapView, Pen } from "./map";
import { Picker } from "./picker";
import { legend, zoomer } from "./stepview";

// Vehicles are records, column by column.
interface Vehicles {
  user: string[]; time_ms: number[]; kind: string[]; mechanism: string[]; epsilon: number[]; releases: number[];
  estimate_x: number[]; estimate_y: number[]; radius_km: number[];
  major_km: Column; minor_km: Column; azimuth_deg: Column; release_x: Column; release_y: Column;
}

interface Live {
  topic: string; trouble: string; // why nothing comes
  records: number; seeded: number; more: number; users: number;
  last_ms: number;
  start: number; // how often the topic was read from its first record
  vehicles: Vehicles;
}

const every = 1500; // ms from one look to the next

// LiveView is the view of a topic.
export class LiveView {
  readonly element: HTMLElement;
  readonly beside: HTMLElement;
  readonly map: MapView;
  readonly maps: MapView[];
  private info: MapInfo | null = null;
  private live: Live | null = null;
  private way: Vehicles | null = null;
  private view = "";
  private chosen = "";
  private readonly rows = new Map<string, number>(); // of vehicles, by name
  private readonly model = make("p", { id: "live-model" });
  // update looks again and again while the view is open.
  readonly update: () => void;
  private readonly says = make("figcaption", { id: "live-caption" });
  readonly facts = make("dl", { class: "facts", id: "live-facts" });
  private readonly user: Picker;
  private readonly trouble = make("p", { class: "soft", role: "status" });

  constructor(private readonly failed: (e: unknown) => void) {
    this.update = whileShown(() => this.element, every, () => this.look(), failed);
    const canvas = make("canvas", { role: "img", "aria-describedby": "live-caption", "aria-label": "Map of the topic" });
    this.map = new MapView(canvas);
    this.maps = [this.map];
    this.map.picked = (p) => {
      const v = this.live?.vehicles;
      const away = v?.user.map((_, i) => Math.hypot(v.estimate_x[i]! - p.x, v.estimate_y[i]! - p.y)) ?? [];
      if (v && away.length > 0) void this.choose(v.user[nearest(away, 0)]!);
    };
    this.user = new Picker("live-user", "Vehicle", (text) => Promise.resolve(this.find(text)),
      (name) => void this.choose(name), failed);
    this.map.closer = (view) => {
      this.view = view;
      ask<MapInfo>("live/map", { view }).then((map) => {
        if (this.view !== view) return;
        this.info = map;
        this.render();
      }, failed);
    };
    this.element =
      make("div", {},
        make("figure", { class: "beside" }, make("div", { class: "picture" }, canvas, zoomer(this.map)), make("div", { class: "text" }, this.says,
          legend([
            { sign: "cross", colour: "estimate", text: "best guess of a vehicle" },
            { sign: "circle", colour: "estimate", text: "95 % of the belief about the chosen one" },
            { sign: "diamond", colour: "release", text: "its last draw" },
          ]))));
    this.beside =
      make("div", { class: "stack" },
        this.trouble,
        make("section", { class: "card knobs" }, make("h2", {}, "Look at"),
          make("label", {}, "One vehicle", this.user.element)),
        make("section", { class: "card" }, make("div", { class: "says" },
          make("p", {}, rich("*This is the public side.* It has the records of the topic, the public model and the public settings, and nothing else. " +
            "No true place of these vehicles was sent to this view.")),
          this.model,
          make("p", {}, "A cross is where a vehicle most likely is, given all its records."))));
  }

  private async look(): Promise<void> {
    this.info ??= await ask<MapInfo>("live/map");
    const known = this.live;
    this.take(await ask<Live>("live", known ? { start: known.start, since: known.records } : {}), known);
    if (!this.rows.has(this.chosen)) {
      const { user, time_ms } = this.live!.vehicles; // the one that reported last
      this.chosen = user[time_ms.indexOf(Math.max(...time_ms))] ?? "";
    }
    this.way = this.chosen ? await ask<Vehicles>("live/track", { user: this.chosen }) : null;
    this.user.show(this.chosen);
    this.render();
  }

  // take merges what came since.
  private take(now: Live, known: Live | null): void {
    if (!known || known.start !== now.start) {
      this.rows.clear();
      now.vehicles.user.forEach((name, i) => this.rows.set(name, i));
      this.live = now;
      return;
    }
    const all = known.vehicles as unknown as Record<string, unknown[]>;
    const some = now.vehicles as unknown as Record<string, unknown[] | null>;
    now.vehicles.user?.forEach((name, i) => {
      const at = this.rows.get(name) ?? this.rows.size;
      this.rows.set(name, at);
      for (const column of Object.keys(all)) all[column]![at] = some[column]![i];
    });
    this.live = { ...now, vehicles: known.vehicles };
  }

  private find(text: string): string[] {
    const low = text.toLowerCase();
    const names = this.live?.vehicles.user.filter((name) => name.toLowerCase().includes(low)).sort() ?? [];
    return [...names.filter((name) => name === text), ...names.filter((name) => name !== text)].slice(0, 200);
  }

  private async choose(user: string): Promise<void> {
    this.chosen = user;
    try {
      this.way = await ask<Vehicles>("live/track", { user });
      this.render();
    } catch (error) {
      this.failed(error);
    }
  }

  private paint(pen: Pen): void {
    const v = this.live!.vehicles;
    this.follow(pen);
    if (v.user.length > 200) pen.dots(v.estimate_x, v.estimate_y, "estimate");
    else {
      v.user.forEach((user, i) => {
        if (user !== this.chosen) pen.mark({ x: v.estimate_x[i]!, y: v.estimate_y[i]! }, "cross", "estimate", 5, user);
      });
    }
  }

  // follow draws the chosen vehicle, before others take the room of its label.
  private follow(pen: Pen): void {
    const way = this.way;
    const last = way ? way.user.length - 1 : -1;
    if (!way || last < 0) return;
    const at = { x: way.estimate_x[last]!, y: way.estimate_y[last]! };
    pen.way(way.estimate_x, way.estimate_y, way.time_ms, 10_000 * pen.map.step_s, "estimate", 1.4, 0.55);
    pen.ellipse(at, way.radius_km[last]!, way.radius_km[last]!, 0, "estimate", 2, { dash: [7, 5] });
    if (way.major_km[last] !== null) {
      pen.ellipse(at, way.major_km[last]!, way.minor_km[last]!, way.azimuth_deg[last]!, "estimate", 1.5, { filled: 0.12 });
    }
    if (way.release_x[last] !== null) {
      pen.mark({ x: way.release_x[last]!, y: way.release_y[last]! }, "diamond", "release", 7);
    }
    pen.mark(at, "cross", "estimate", 9, this.chosen);
  }

  private render(): void {
    const live = this.live;
    if (!live || !this.info) return;
    this.map.show(this.info, { name: "", scene: (pen) => this.paint(pen) });
    this.model.textContent = this.info.private ? "" : "The model was trained without differential privacy: it tells about the traces " +
      "that it was trained on, and so does its map. Show this page only to those who may have the model.";
    const problems = [];
    if (live.trouble) problems.push(live.trouble);
    if (live.more > 0) problems.push(`${live.more} records of further users are not shown.`);
    if (live.seeded > 0) problems.push("The noise of these records comes from a seed: they are not private.");
    this.trouble.textContent = problems.join(" ");
    const way = this.way;
    const last = way ? way.user.length - 1 : -1;
    const drawn = way?.epsilon.findLast((e) => e > 0); // none if only older records have one
    this.facts.replaceChildren(
      fact("Records", live.records.toLocaleString("en")), fact("Vehicles", live.users.toLocaleString("en")),
      fact("Latest, UTC", live.records ? clock(live.last_ms).slice(11) : "–", clock(live.last_ms)),
      fact("ε, last draw", drawn === undefined ? "–" : sum(drawn)),
      fact("Its releases", way && last >= 0 ? String(way.releases[last]) : "–", "of the chosen vehicle"));
    if (!way || last < 0) {
      this.says.textContent = `The topic ${live.topic} has no record yet. The page looks again every moment.`;
      return;
    }
    this.says.replaceChildren(rich(`${this.chosen} is most likely at the large cross, and with 95 % within *${metres(way.radius_km[last]!)}* of it, ` +
      `as its record of ${clock(way.time_ms[last]!)} UTC says (${way.kind[last]}, by ${way.mechanism[last]!.replace(/ \(.*/, "")}). The thin line joins its ` +
      `last ${way.user.length} best guesses. The records say no more than that about where it is.`));
  }
}
