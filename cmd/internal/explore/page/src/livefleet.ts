// Where the fleet of a topic was, by the sum of its posteriors.

import { ask, Field, MapInfo, Span } from "./api";
import { Ruler } from "./fleetview";
import { fact, make, metres, minute, whileShown } from "./look";
import { Camera, MapView } from "./map";
import { zoomer } from "./stepview";

interface Window extends Span { zone_km: number; posterior: Field }

// LiveFleetView is the view of a topic's vehicles, window by window.
export class LiveFleetView {
  readonly element: HTMLElement;
  readonly facts = make("dl", { class: "facts", id: "live-fleet-facts" });
  readonly beside: HTMLElement;
  readonly maps: MapView[];
  // update looks again and again while the view is open.
  readonly update: () => void;
  private readonly says = make("p");
  private readonly ruler: Ruler;
  private windows: Span[] = [];
  private start = 0; // of the window that somebody chose; else it is the last one
  private map: MapInfo | null = null;
  private begun = 0; // how often the topic was read from its first record

  constructor(failed: (e: unknown) => void) {
    const canvas = make("canvas", { role: "img", "aria-label": "Map of the fleet: the sum of posteriors" });
    this.maps = [new MapView(canvas, new Camera())];
    this.ruler = new Ruler("window", "Window, UTC", (at) => {
      this.start = this.windows[at]!.start_ms;
      void this.look().catch(failed);
    });
    this.element = make("div", {}, this.ruler.element,
      make("div", { class: "beside" }, make("div", { class: "picture" }, canvas, zoomer(this.maps[0]!))));
    this.beside = make("div", { class: "stack" }, make("section", { class: "card" }, make("div", { class: "says" }, this.says)));
    this.update = whileShown(() => this.element, 5000, () => this.look(), failed);
  }

  private async look(): Promise<void> {
    this.map ??= await ask<MapInfo>("live/map");
    const live = await ask<{ windows: Span[]; no_fleet: string; start: number }>("live", { start: this.begun, since: 2 ** 50 });
    [this.begun, this.windows] = [live.start, live.windows];
    const chosen = this.windows.find((w) => w.start_ms === this.start) ?? this.windows.at(-1);
    const span = (this.windows.at(-1)?.end_ms ?? 0) - (this.windows[0]?.start_ms ?? 0);
    this.ruler.show(this.windows.map((w) => `${minute(w.start_ms, span)} to ${minute(w.end_ms, 0)}`), chosen ? this.windows.indexOf(chosen) : 0);
    const now = chosen ? await ask<Window>("live/window", { start_ms: chosen.start_ms }) : null;
    this.maps[0]!.show(this.map, { name: "", plain: true, scene: (pen) => pen.field(now && now.posterior, "posterior", "root", 0.95, now?.zone_km) });
    this.says.textContent = live.no_fleet || (now ? "The sum of all vehicles’ posteriors, from the records of the topic. It leans on the model, and counts are nearer to the truth. " +
      "With a handful of vehicles it tells about individual people, so do not publish it." : "No window of the topic has ended yet. The page looks again every moment.");
    this.facts.replaceChildren(...(now ? [fact("Vehicles", String(now.vehicles)), fact("A zone", metres(now.zone_km)), fact("Windows", String(this.windows.length))] : []));
  }
}
