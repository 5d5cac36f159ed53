// The page: what it may show, its views, and its keys.

import { About, ask, Line, Wrong } from "./api";
import { DayView } from "./dayview";
import { FleetView } from "./fleetview";
import { frontier } from "./frontier";
import { Panel } from "./knobs";
import { button, clock, get, make, nearest } from "./look";
import { LiveFleetView } from "./livefleet";
import { LiveView } from "./liveview";
import { Camera, MapView, outlined, proportion } from "./map";
import { Picker } from "./picker";
import { most, State } from "./state";
import { StepView } from "./stepview";
import { taker } from "./take";

// Picture is what a view consists of.
interface Picture {
  element: HTMLElement;
  facts?: HTMLElement; // above the knobs
  beside: HTMLElement; // below them
  maps: MapView[];
  update: () => void;
  move?: (by: number) => void;
}

// View is a picture with the question that it answers. A track has the bar of users and times, and
// the truth. side is that of the wall, in words.
type View = Picture & { id: string; title: string; question: string; track: boolean; side: string };

function failed(error: unknown): void {
  const box = get("wrong");
  box.textContent = error instanceof Wrong ? error.message : `This failed: ${String(error)}`;
  box.hidden = false;
  get("main").classList.add("refused");
}

class Page {
  private views: View[] = [];
  private now!: View;
  private playing: ReturnType<typeof setTimeout> | null = null;
  private user: Picker | null = null;
  private readonly time = make("input", { type: "range", id: "time", min: "0", value: "0", "aria-label": "Report" });
  private readonly label = make("output", { for: "time", id: "clock" });
  private readonly play = button({ class: "main", id: "play" }, "▶ Play", () => (this.playing ? this.stop() : this.tick()));
  private bar: HTMLElement | null = null;
  private address = ""; // without the report
  private whole = ""; // with it
  private pushes = false; // the next change of the address is a step that Back goes back
  private writing: ReturnType<typeof setTimeout> | null = null;
  private wrote = -1000; // when
  private turns = 0; // how often somebody went back
  private readonly question = make("h2", { class: "question" });
  private readonly panel: Panel | null;
  private readonly knobs = make("div", { class: "stack turn" }); // and what can be saved
  private readonly truth = make("input", { type: "checkbox", id: "show-truth" });
  private readonly side = make("span", { id: "side" });
  private priced = ""; // for which the cost of each ε is shown

  constructor(private readonly state: State | null) {
    this.panel = state && new Panel(state, state.about);
  }

  add(id: string, title: string, question: string, picture: Picture, track = true, side = secret): void {
    this.views.push(Object.assign(picture, { id, title, question, track, side }));
  }

  // outline draws lines and names below the maps of a side.
  outline(lines: Line[], side: string): void {
    const o = outlined(lines);
    for (const map of this.views.filter((v) => v.side === side).flatMap((v) => v.maps)) {
      map.outline = o;
      map.redraw();
    }
  }

  async start(): Promise<void> {
    const main = make("div", { class: "stack pictures" });
    const aside = make("div", { class: "stack aside" }, this.question);
    aside.append(...this.views.flatMap((v) => v.facts ?? []));
    if (this.state) {
      await this.read();
      this.bar = this.trackBar(this.state);
      this.state.watchers.add(() => {
        this.follow();
        this.now.update();
        void this.price().catch(() => null); // the picture says what is wrong
      });
      main.append(this.bar);
      this.knobs.append(this.panel!.element, taker(() => this.now, this.state));
      aside.append(this.knobs);
      this.truth.addEventListener("change", () => {
        this.state!.truth = this.truth.checked;
        this.state!.changed();
        this.open(this.now);
      });
    }
    get("badge").append(this.truth, this.side);
    const tabs = get("tabs");
    for (const view of this.views) {
      const tab = button({ role: "tab", id: `tab-${view.id}`, "aria-controls": view.id }, view.title, () => this.open(view));
      tab.addEventListener("keydown", (e) => this.tabKey(e, view));
      tabs.append(tab);
      view.element.id = view.id;
      view.element.setAttribute("role", "tabpanel");
      view.element.setAttribute("aria-labelledby", tab.id);
      view.element.hidden = true;
      main.append(view.element);
      aside.append(view.beside);
    }
    get("main").append(main, aside); // as a whole, so that nothing jumps
    get("beyond").addEventListener("click", () => this.open(this.views.find((v) => v.side !== this.now.side)!));
    document.addEventListener("keydown", (e) => this.key(e));
    addEventListener("popstate", () => void this.back().catch(failed));
    const moves = location.hash === "" && this.state?.about.sample && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.open(this.wanted());
    if (moves) this.playing = setTimeout(() => this.tick(), 1500);
  }

  // wanted is the view that the address names.
  private wanted(): View {
    const id = new URLSearchParams(location.hash.slice(1)).get("view");
    return this.views.find((v) => v.id === id) ?? this.views[0]!;
  }

  // back follows an address that somebody went back to, or has typed.
  private async back(): Promise<void> {
    const turn = ++this.turns;
    clearTimeout(this.writing ?? undefined);
    this.writing = null;
    this.whole = location.hash;
    this.stop();
    if (this.state) await this.read();
    if (turn !== this.turns) return; // somebody went on meanwhile
    this.address = "";
    this.open(this.wanted());
  }

  // tabKey goes from tab to tab by keys (WAI-ARIA's pattern of tabs).
  private tabKey(e: KeyboardEvent, view: View): void {
    const all = this.views.filter((v) => v.side === view.side);
    const [at, n] = [all.indexOf(view), all.length];
    const to = { ArrowRight: at + 1, ArrowLeft: at + n - 1, Home: 0, End: n - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    e.stopPropagation(); // the same keys go through the reports elsewhere
    this.open(all[to % n]!);
    get(`tab-${this.now.id}`).focus();
  }

  private open(view: View): void {
    this.now = view;
    for (const v of this.views) {
      for (const part of [v.element, v.beside, v.facts]) if (part) part.hidden = v !== view;
      const tab = get(`tab-${v.id}`);
      tab.setAttribute("aria-selected", String(v === view));
      tab.tabIndex = v === view ? 0 : -1;
      tab.hidden = v.side !== view.side;
    }
    if (this.bar) this.bar.hidden = !view.track;
    if (!view.track) this.stop();
    this.question.textContent = view.question;
    get("main").dataset["view"] = view.id;
    this.knobs.hidden = view.side !== secret;
    this.panel?.lay();
    const truth = this.state?.truth ?? false;
    this.truth.checked = truth;
    this.truth.hidden = view.side !== secret;
    this.side.textContent = view.side !== secret ? view.side : `Secret side: truth ${truth ? "shown" : "hidden"}`;
    get("badge").hidden = false;
    get("badge").classList.toggle("public", view.side !== secret || !truth);
    get("beyond").hidden = this.views.every((v) => v.side === view.side);
    get("beyond").textContent = view.side === secret ? "What is public" : "The truth beside";
    this.follow();
    view.update();
    void this.price().catch(() => null);
  }

  // turned follows settings that were chosen beside the knobs.
  turned(): void {
    this.panel?.lay();
    this.state?.changed();
  }

  // price shows what other ε would give, once for each vehicle and setting.
  private async price(): Promise<void> {
    const state = this.state;
    if (!state || this.now.side !== secret || !this.now.track) return;
    const s = { ...state.turned };
    this.panel!.below.hidden = !state.truth;
    const key = JSON.stringify([state.user, s]);
    if (this.priced === key) return;
    this.priced = key;
    const [course, map] = await Promise.all([state.course(state.turned), state.map(new AbortController().signal)]);
    const picture = await frontier(course, s, map.width * map.height, (epsilon) => {
      state.turned.epsilon = epsilon;
      this.turned();
    });
    if (this.priced === key) this.panel!.below.replaceChildren(...(picture ? [picture] : []));
  }

  // trackBar chooses a user and a time.
  private trackBar(state: State): HTMLElement {
    this.user = new Picker("user", "Vehicle", (text) => state.findUsers(text).then(({ names }) => names), async (name) => {
      await state.choose(name).catch(failed);
      state.changed();
    }, failed);
    this.time.addEventListener("input", () => this.go(Number(this.time.value)));
    const go = (text: string, label: string, by: number) => button({ "aria-label": label, title: label }, text, () => this.go(state.fix + by));
    state.growers.add(() => this.tellTime());
    return make("div", { class: "bar card" },
      this.user.element, go("◀", "The report before", -1), this.play, go("▶", "The next report", 1), this.time, this.label);
  }

  // tellTime says which report is looked at, and how far the computing is if that is not there yet.
  private tellTime(): void {
    const state = this.state!;
    const course = state.peek(state.settings).course;
    const time = course?.time_ms[state.fix];
    this.label.textContent = time === undefined
      ? `report ${state.fix + 1}: ${course?.done ?? 0} are computed so far`
      : `${clock(time)} UTC, ${state.fix + 1} of ${course!.total}`;
  }

  private last(): number {
    const state = this.state!;
    return Math.min(state.reports, most) - 1;
  }

  private go(fix: number): void {
    const state = this.state!;
    state.fix = Math.max(0, Math.min(this.last(), fix));
    state.changed();
  }

  // follow shows what is chosen, and keeps it in the address. A report, or a time of the day, replaces the one
  // before it there, so that "back" goes to other settings, vehicles and views.
  private follow(): void {
    get("wrong").hidden = true;
    get("main").classList.remove("refused");
    const state = this.state;
    const chosen: Record<string, string> = { view: this.now.id };
    if (state && this.now.track) {
      this.time.max = String(this.last());
      this.time.value = String(state.fix);
      this.user?.show(state.user);
      this.tellTime();
    }
    // Views that show no vehicle have it too, so that Back finds it again.
    if (state) Object.assign(chosen, { user: state.user }, state.told());
    const address = `#${new URLSearchParams(chosen)}`;
    const whole = address + (state?.times ?? "");
    this.pushes ||= this.address !== "" && this.address !== address;
    this.address = address;
    this.whole = whole;
    this.write();
  }

  // write puts what is chosen into the address, 80 times in 30 s at most: Safari takes 100, and throws.
  private write(): void {
    this.writing ??= setTimeout(() => {
      [this.writing, this.wrote] = [null, performance.now()];
      history[this.pushes ? "pushState" : "replaceState"](null, "", this.whole);
      this.pushes = false;
    }, Math.max(0, this.wrote + 375 - performance.now()));
  }

  // read takes what is chosen from the address.
  private async read(): Promise<void> {
    const state = this.state!;
    const chosen = new URLSearchParams(location.hash.slice(1));
    state.tell(chosen);
    const user = chosen.get("user") ?? "";
    const { names } = await state.findUsers("");
    const first = names.includes(state.about.user) ? state.about.user : names[0] ?? "";
    const known = user ? (await state.findUsers(user)).names[0] === user : false;
    await state.choose(known ? user : first);
    const fix = Number(chosen.get("fix") ?? NaN);
    state.fix = Number.isInteger(fix) ? Math.max(0, Math.min(this.last(), fix)) : await this.release(state).catch(() => 0);
  }

  // release is the report with the release that is nearest to a third of what is computed so far.
  private async release(state: State): Promise<number> {
    const { kind } = await state.course(state.settings, 0);
    const drawn = [...kind.keys()].filter((i) => kind[i] === "released");
    return drawn.length ? drawn[nearest(drawn, kind.length / 3)]! : 0;
  }

  private stop(): void {
    if (this.playing) clearTimeout(this.playing);
    this.playing = null;
    this.play.textContent = "▶ Play";
  }

  private tick(): void {
    const state = this.state!;
    this.play.textContent = "❚❚ Pause";
    this.go(state.fix >= this.last() ? 0 : state.fix + 1);
    this.playing = setTimeout(() => this.tick(), 600);
  }

  private key(e: KeyboardEvent): void {
    const target = e.target as HTMLElement;
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    if (e.key === " " && target.tagName === "BUTTON") return;
    const track = this.now.track && this.state;
    const acts: Record<string, () => void> = {
      "+": () => this.now.maps[0]?.zoom(1.5),
      "-": () => this.now.maps[0]?.zoom(1 / 1.5),
      "0": () => this.now.maps[0]?.fit(),
    };
    if (track) {
      acts["ArrowRight"] = () => this.go(this.state!.fix + 1);
      acts["ArrowLeft"] = () => this.go(this.state!.fix - 1);
      acts[" "] = () => this.play.click();
    }
    if (this.now.move) {
      acts["ArrowDown"] = () => this.now.move!(1);
      acts["ArrowUp"] = () => this.now.move!(-1);
    }
    const act = acts[e.key === "=" ? "+" : e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }
}

const [secret, open] = ["Secret side", "Public side: records only"];

async function start(): Promise<void> {
  const about = await ask<About>("about");
  const state = about.truth ? new State(about) : null;
  const page = new Page(state);
  document.documentElement.style.setProperty("--ratio", String(proportion(about.ratio)));
  document.documentElement.dataset["shape"] = about.ratio < 1.2 ? "tall" : "wide";
  if (about.public) { // what runs comes first
    page.add("live", "One moment", "What does everybody see?", new LiveView(failed), false, open);
    page.add("live-fleet", "The fleet", "Where are they all?", new LiveFleetView(failed), false, open);
  }
  if (state) {
    const [near, camera] = [new Camera(), new Camera()];
    page.add("step", "One moment", "Where is it, and what do others see?", new StepView(state, near, failed, () => page.turned()));
    page.add("day", "A day", "What do all records of a day tell?", new DayView(state, camera, failed));
    page.add("fleet", "The fleet", "Where are they usually at this time?", new FleetView(state, camera, failed), false);
    if (about.sample) {
      MapView.town = "Liverpool";
      get("source").textContent = "The traces are those of eight buses in Liverpool. Contains public sector " +
        "information licensed under the Open Government Licence v3.0. The model is trained on the same traces, " +
        "so errors are smaller than on new ones.";
    }
  }
  for (const [there, question, side] of [
    [about.truth, "outline", secret], [about.public, "live/outline", open],
  ] as const) {
    if (there) ask<Line[]>(question).then((lines) => page.outline(lines, side), failed);
  }
  await page.start();
}

start().catch(failed);
