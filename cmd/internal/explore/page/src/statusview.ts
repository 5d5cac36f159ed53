// How the instances of a service are.

import { ask } from "./api";
import { make, sum, whileShown } from "./look";

interface Partition {
  phase: string;
  records?: number;
  of?: number;
  next_offset?: number;
  stable_offset?: number;
  lag_records?: number;
  lag_time?: string;
}

interface Status {
  time: string;
  ready: boolean;
  phase: string;
  kafka_away_seconds?: number;
  service: { group: string; instance_id?: string; raw_topic: string; sanitized_topic: string };
  settings: {
    mechanism: string; epsilon: number; delta?: number; budget_epsilon: number; budget_window_seconds: number;
    budget_lifetime: number; model_id: string;
  };
  started_at: string;
  rebalances: number;
  fenced: number;
  last_commit?: string;
  counters: Record<string, number>;
  dead_letters: Record<string, number>;
  skipped: Record<string, number>;
  epsilon_spent: number;
  state: { bytes: number; users: number; counted_at?: string };
  partitions: Record<string, Partition>;
}

interface Instances {
  instances: { name: string; trouble: string; status: Status | null }[];
}

const every = 2000; // ms from one look to the next

const whole = (x: number) => x.toLocaleString("en");

// since writes how long ago a time was.
function since(time: string | undefined, now: string): string {
  if (!time) return "not yet";
  const s = Math.max(0, (Date.parse(now) - Date.parse(time)) / 1000);
  if (s < 90) return `${s.toFixed(0)} s ago`;
  return s < 5400 ? `${(s / 60).toFixed(0)} min ago` : `${(s / 3600).toFixed(0)} h ago`;
}

// budget says what a user may spend.
function budget(s: Status["settings"]): string {
  const limits = [];
  if (s.budget_window_seconds > 0) limits.push(`${sum(s.budget_epsilon)} in ${sum(s.budget_window_seconds / 3600)} h`);
  if (s.budget_lifetime > 0) limits.push(`${sum(s.budget_lifetime)} for all time`);
  return limits.join(", ") || "no limit";
}

// StatusView is the view of a service.
export class StatusView {
  readonly element: HTMLElement;
  private readonly all = make("div", { class: "stack", id: "status-all" });
  private readonly before = new Map<string, { time: number; read: number; rate: number | null }>();
  // open looks again and again while the view is open.
  readonly open: () => void;

  constructor(failed: (e: unknown) => void) {
    this.open = whileShown(() => this.element, every, () => this.look(), failed);
    this.element = make("div", { class: "stack" },
      make("section", {},
        make("h2", {}, "How the service is"),
        make("p", { class: "soft" }, "Counts and times that each instance tells about itself. None of it is about a single person. " +
          "The lag is how many raw records wait; Σε is what all releases since the start have cost, summed over all users.")),
      this.all);
  }

  private async look(): Promise<void> {
    const now = await ask<Instances>("status");
    this.all.replaceChildren(...now.instances.map((i) => i.status
      ? this.instance(i.name, i.status)
      : make("section", { class: "card" }, make("h3", {}, i.name), make("p", { class: "trouble" }, i.trouble))));
  }

  // rate is how many raw records a second were read since the last look.
  private rate(name: string, s: Status): string {
    const time = Date.parse(s.time) / 1000;
    const read = s.counters["records_in"] ?? 0;
    const last = this.before.get(name);
    let rate = last?.rate ?? null;
    if (last && time > last.time && read >= last.read) rate = (read - last.read) / (time - last.time);
    this.before.set(name, { time, read, rate });
    return rate === null ? "–" : `${rate >= 10 ? whole(Math.round(rate)) : rate.toFixed(1)} / s`;
  }

  private instance(name: string, s: Status): HTMLElement {
    const fact = (title: string, value: string) => make("div", {}, make("dt", {}, title), make("dd", {}, value));
    const numbers = Object.keys(s.partitions).map(Number).sort((a, b) => a - b);
    const parts = numbers.map((n) => s.partitions[n]!);
    const lag = parts.reduce((l, p) => l + (p.lag_records ?? 0), 0);
    const number = (x: number | undefined) => (x === undefined ? "–" : whole(x));
    const cell = (text: string) => make("td", {}, text);
    const counts = (title: string, of: Record<string, number>) => {
      const some = Object.entries(of).filter(([, n]) => n > 0).map(([why, n]) => `${whole(n)} ${why}`);
      return some.length === 0 ? null : make("p", { class: "small after" }, `${title}: ${some.join(", ")}.`);
    };
    return make("section", { class: "card", "aria-label": `Instance ${name}` },
      make("h3", {}, `${name}: ${s.ready ? "ready" : "not ready"}, ${s.phase}`),
      make("p", { class: "small soft" }, `Group ${s.service.group}${s.service.instance_id ? `, instance ${s.service.instance_id}` : ""}; ` +
        `${s.service.raw_topic} → ${s.service.sanitized_topic}; ${s.settings.mechanism}, ε = ${sum(s.settings.epsilon)}` +
        `${s.settings.delta ? `, δ = ${s.settings.delta}` : ""}; a user may spend: ${budget(s.settings)}; model ${s.settings.model_id}; ` +
        `started ${since(s.started_at, s.time)}, rebalances: ${s.rebalances}, partitions lost while they were worked on: ${s.fenced}.`),
      s.kafka_away_seconds ? make("p", { class: "trouble" }, `Kafka has not answered for ${s.kafka_away_seconds.toFixed(0)} s.`) : null,
      make("dl", { class: "facts" },
        fact("Lag", `${whole(lag)} records`), fact("Read", this.rate(name, s)),
        fact("Raw records", number(s.counters["records_in"])), fact("Sanitized records", number(s.counters["records_out"])),
        fact("Refused", number(s.counters["dead_letters"])), fact("Spent by all, Σε", sum(s.epsilon_spent)),
        fact("Users in the state", s.state.counted_at ? whole(s.state.users) : "–"),
        fact("Last commit", since(s.last_commit, s.time))),
      counts("Refused", s.dead_letters), counts("Skipped by a rule", s.skipped),
      make("div", { class: "wide" }, make("table", {},
        make("thead", {}, make("tr", {}, ...["Partition", "Phase", "Next offset", "End", "Lag", "Lag in time"].map((h) => make("th", { scope: "col" }, h)))),
        make("tbody", {}, ...parts.map((p, i) => make("tr", {}, make("th", { scope: "row" }, String(numbers[i])),
          cell(p.phase === "restoring" && p.of ? `restoring, ${whole(p.records ?? 0)} of ${whole(p.of)}` : p.phase),
          cell(number(p.next_offset)), cell(number(p.stable_offset)), cell(number(p.lag_records)),
          cell(p.lag_time ?? "–")))))));
  }
}
