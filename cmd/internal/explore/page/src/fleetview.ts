// Where all users were: what their records tell about that, beside the truth.

import { Crowd, Crowds, Field, MapInfo } from "./api";
import { clock, make, metres, minute, percent, rich, windowsOf } from "./look";
import { Camera, MapView } from "./map";
import { Latest, State } from "./state";
import { zoomer } from "./stepview";

const pictures: { of: "fitted" | "blind" | "truth"; title: string; says: string; secret: boolean; colour: string }[] = [
  { of: "fitted", title: "From the records", secret: false, colour: "posterior",
    says: "*Public:* estimated from all sanitized records together." },
  { of: "truth", title: "The truth", secret: true, colour: "truth",
    says: "*Secret:* where each vehicle last reported in this window. Only you see it." },
  { of: "blind", title: "The model alone", secret: false, colour: "prior",
    says: "*Public:* where the model expects as many vehicles, without any record." },
];

// FleetView is the view of all users.
export class FleetView {
  readonly element: HTMLElement;
  readonly beside: HTMLElement;
  readonly maps: MapView[];
  private start = 0;
  private readonly latest = new Latest();
  private readonly says = make("div", { class: "says", id: "fleet-says", "aria-live": "polite" });
  private readonly table = make("div", { class: "wide" });

  constructor(private readonly state: State, camera: Camera, private readonly failed: (e: unknown) => void) {
    const figures: HTMLElement[] = [];
    this.maps = pictures.map((p, i) => {
      const canvas = make("canvas", { role: "img", "aria-label": `Map of the fleet: ${p.title}` });
      const view = new MapView(canvas, camera);
      figures.push(make("figure", {},
        make("div", { class: "picture half" }, canvas,
          make("div", { class: p.secret ? "corner secret" : "corner" }, p.title), i === 2 ? zoomer(view) : null),
        make("figcaption", {}, rich(p.says))));
      return view;
    });
    this.element = make("div", { class: "stack" },
      make("div", { class: "three" }, ...figures),
      make("section", { class: "card", "aria-label": "Windows of the fleet" }, make("h2", {}, "Window by window"), this.table));
    this.beside = make("section", { class: "card" }, this.says);
  }

  async update(): Promise<void> {
    this.element.classList.add("busy");
    const s = { ...this.state.settings };
    const fetch = async (signal: AbortSignal) => {
      const [map, crowds] = await Promise.all([this.state.map(s, signal), this.state.crowds(s, signal)]);
      const most = Math.max(...crowds.windows.map((w) => w.vehicles));
      const chosen = crowds.windows.find((w) => w.start_ms === this.start) ?? crowds.windows.find((w) => w.vehicles === most);
      return { map, crowds, crowd: chosen ? await this.state.crowd(s, chosen.start_ms, signal) : null };
    };
    const done = await this.latest.run(fetch, ({ map, crowds, crowd }) => this.render(map, crowds, crowd), this.failed);
    if (done) this.element.classList.remove("busy");
  }

  // leave gives up what the view still waits for: a fleet takes long.
  leave(): void {
    this.latest.stop();
  }

  private render(map: MapInfo, crowds: Crowds, crowd: Crowd | null): void {
    const most = crowd ? Math.max(...pictures.map((p) => crowd[p.of].max)) : 1;
    this.maps.forEach((view, i) => {
      const p = pictures[i]!;
      view.show(map, (pen) => {
        if (crowd) pen.field(levelled(crowd[p.of], most), p.colour, "root", 0.95, crowd.zone_km);
      });
    });
    const times = windowsOf(crowds.windows);
    this.table.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, ...["UTC", "vehicles", "records are off by", "the model alone by"].map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, ...crowds.windows.map((w, i) => {
        const now = w.start_ms === crowd?.start_ms;
        const button = make("button", { type: "button", "aria-pressed": String(now) }, times[i]!);
        button.addEventListener("click", () => {
          this.start = w.start_ms;
          void this.update();
        });
        return make("tr", now ? { class: "key" } : {}, make("th", { scope: "row" }, button), make("td", {}, String(w.vehicles)),
          make("td", w.fitted_off < w.blind_off ? { class: "better" } : {}, `${Math.round(100 * w.fitted_off)} %`),
          make("td", w.blind_off < w.fitted_off ? { class: "better" } : {}, `${Math.round(100 * w.blind_off)} %`));
      }))));
    if (!crowd) {
      this.says.replaceChildren(make("p", {}, "No window has a vehicle whose records can be followed."));
      return;
    }
    this.says.replaceChildren(
      make("p", {}, rich(`*${clock(crowd.start_ms).slice(0, 16)} to ${minute(crowd.end_ms, 0)} UTC, ${crowd.vehicles} vehicles.* To turn the estimate into the truth, *${percent(crowd.fitted_off)}* of the ` +
        `vehicles would have to be in another zone of ${metres(crowd.zone_km)}. For the model alone it would be ${percent(crowd.blind_off)}.`)),
      make("p", {}, crowd.vehicles < 50
        ? "This fleet is small, so the estimate errs much and tells about single vehicles. It errs less with thousands of vehicles."
        : "A zone with few vehicles tells about single people: do not publish such a zone alone."));
  }
}

const scaled = new WeakMap<Field, { most: number; field: Field }>();

// levelled is a field in the colours of all three: the darkest colour is the same number in each.
function levelled(field: Field, most: number): Field {
  if (field.blocks === 0 || field.max >= most) return field;
  const kept = scaled.get(field);
  if (kept?.most === most) return kept.field;
  const root = Math.sqrt(field.max / most);
  const raw = Uint8Array.from(atob(field.data), (c) => c.charCodeAt(0));
  for (let i = 0; i < raw.length; i += 2) {
    const q = Math.round((raw[i]! | (raw[i + 1]! << 8)) * root);
    raw[i] = q & 255;
    raw[i + 1] = q >> 8;
  }
  let text = "";
  for (const b of raw) text += String.fromCharCode(b);
  const own = { ...field, max: most, data: btoa(text) };
  scaled.set(field, { most, field: own });
  return own;
}
