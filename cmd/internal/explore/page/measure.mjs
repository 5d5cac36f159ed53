// Measures the page on a large map in a real browser, and prints what it finds. MEASURE=1 test.sh
// starts it. Nothing here fails for being slow: times are of the machine.

import { execFileSync, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";

const folder = process.argv[2];
const traces = join(folder, "fleet.csv");
const model = join(folder, "fleet.avro");
const [users, cells, steps, long] = [10_000, 1_000, 60, 1_000];
const box = [52, -2, 54.2478, 1.7422]; // 250 km by 250 km

// chance is mulberry32, a generator of a few lines, so that a seed gives the same fleet everywhere.
let state = 1;
function chance() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}

// generate writes a fleet whose users go along a lattice of streets. The first one reports longest.
function generate() {
  const file = openSync(traces, "w");
  writeSync(file, "user_id,timestamp,latitude,longitude\n");
  for (let u = 0; u < users; u++) {
    let [x, y, dx, dy] = [Math.floor(chance() * cells), Math.floor(chance() * cells), 1, 0];
    let text = "";
    for (let s = 0; s < (u === 0 ? long : steps); s++) {
      if (chance() < 0.2) [dx, dy] = [[1, 0], [-1, 0], [0, 1], [0, -1]][Math.floor(chance() * 4)];
      x = Math.min(cells - 1, Math.max(0, x + dx));
      y = Math.min(cells - 1, Math.max(0, y + dy));
      const lat = box[0] + ((y + chance()) / cells) * (box[2] - box[0]);
      const lon = box[1] + ((x + chance()) / cells) * (box[3] - box[1]);
      text += `user-${String(u).padStart(5, "0")},${1_700_000_040_000 + s * 60_000},${lat.toFixed(6)},${lon.toFixed(6)}\n`;
    }
    writeSync(file, text);
  }
  closeSync(file);
}

const memory = (pid) => {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  const mb = (name) => (Number(text.match(new RegExp(`${name}:\\s+(\\d+)`))[1]) / 1024).toFixed(0);
  return `${mb("VmRSS")} MB, at most ${mb("VmHWM")} MB`;
};

const say = (what, value) => console.log(`${what.padEnd(58)} ${value}`);
const seconds = (since) => `${((performance.now() - since) / 1000).toFixed(2)} s`;

generate();
execFileSync(process.env.GEODITHER, ["train", "--box", box.join(), "--cell", "250m", "--step", "60s", "--out", model, traces],
  { stdio: "pipe" });
const child = spawn(process.env.GEODITHER, ["explore", "--model", model, traces], { stdio: ["ignore", "pipe", "inherit"] });
const url = await new Promise((resolve) => child.stdout.on("data", (chunk) => resolve(String(chunk).match(/http:\S+/)[0])));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });

// picture waits until a map has more than its paper.
const picture = (page) => page.waitForFunction(() => document.querySelector("#caption")?.textContent.length > 20 &&
  !document.querySelector("#step .busy, #step.busy"), null, { timeout: 120_000, polling: 20 });

// frames drags the map for some seconds, and returns the times between frames, sorted, in ms.
async function frames(page, at) {
  await page.evaluate(() => {
    window.times = [];
    if (window.ticking) return;
    window.ticking = true;
    const tick = (t) => {
      window.times.push(t);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  const where = await page.locator(at).boundingBox();
  const [x, y] = [where.x + where.width / 2, where.y + where.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  const end = Date.now() + 4000;
  for (let k = 0; Date.now() < end; k++) await page.mouse.move(x + 150 * Math.sin(k / 20), y + 90 * Math.cos(k / 25));
  await page.mouse.up();
  const times = await page.evaluate(() => window.times);
  return times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b);
}

const part = (list, share) => list[Math.floor(share * (list.length - 1))].toFixed(1);

try {
  say("load of the machine (1 minute)", loadavg()[0].toFixed(1));
  say("server after start", memory(child.pid));
  for (let time = 1; time <= 3; time++) {
    const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
    const since = performance.now();
    await page.goto(`${url}#user=user-${String(time).padStart(5, "0")}`);
    await picture(page);
    say(`navigation ${time} to the first picture`, seconds(since));
    await page.close();
  }
  const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
  let bytes = 0;
  let largest = 0;
  page.on("response", async (r) => {
    const n = (await r.body().catch(() => "")).length;
    bytes += n;
    largest = Math.max(largest, n);
  });
  await page.goto(`${url}#user=user-00000`);
  await picture(page);
  for (const where of ["the whole map", "zoomed in"]) {
    const list = await frames(page, "#step canvas[role=img]");
    say(`frames while panning, ${where}: median, 95 %, most`, `${part(list, 0.5)}, ${part(list, 0.95)}, ${part(list, 1)} ms`);
    for (let k = 0; k < 6; k++) await page.keyboard.press("+");
    await page.waitForTimeout(3000);
  }
  const since = performance.now();
  await page.fill("#user", "9876");
  await page.waitForSelector("#user-names option[value=user-09876]", { state: "attached" });
  say("a name found among 10,000", seconds(since));
  await page.keyboard.press("Escape");
  const done = () => page.evaluate(() => document.querySelector("#step-facts").textContent.match(/([\d,]+) of [\d,]+ reports/)?.[1] ?? "all");
  await page.waitForTimeout(20_000);
  say("of a trace of 1,000 reports computed after about 30 s", await done());
  say("largest answer; all answers", `${(largest / 1e6).toFixed(2)} MB; ${(bytes / 1e6).toFixed(1)} MB`);
  say("server in the end", memory(child.pid));
  say("JavaScript's heap", `${((await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0)) / 1e6).toFixed(0)} MB`);
} finally {
  await browser.close();
  child.kill("SIGINT");
}
