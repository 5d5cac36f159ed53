#!/usr/bin/env python3
"""Makes the tables in this folder again, all of them or those that are named.

  measure.py --geolife FOLDER --gowalla FILE [--work FOLDER] [TABLE...]

FOLDER holds Geolife as one CSV file a user, NNN.csv.gz, cut to Beijing's 3rd ring. FILE holds
Gowalla's check-ins in Los Angeles as SNAP has them. With --work, models and finished runs are kept
in that folder, and the next call with the same program uses them again.
"""
import argparse, csv, functools, gzip, hashlib, json, math, os, pathlib, re, shlex, shutil
import statistics, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
SAMPLE = REPOSITORY / "cmd/internal/fleet/sample/liverpool.csv"
BEIJING = "--box 39.85,116.27,39.97,116.50 --cell 340m --step 60s"
BUSES = "--box 53.40,-2.99,53.47,-2.89 --step 30s"
DELTAS = [.3, .5, .7]  # the lattice is at its best at one of them
TABLES = {}


def table(*header):
    """Registers a function whose name is the table's and which yields its rows."""
    def register(rows):
        TABLES[rows.__name__.replace("_", "-")] = lambda: [header, *rows()]
        return rows
    return register


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--geolife", type=pathlib.Path, required=True)
    p.add_argument("--gowalla", type=pathlib.Path, required=True)
    p.add_argument("--work", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path, default=HERE, help="folder for the tables")
    p.add_argument("tables", nargs="*", metavar="TABLE", help=" ".join([*TABLES, "figures"]))
    args = p.parse_args()
    unknown = set(args.tables) - {*TABLES, "figures"}
    if unknown:
        p.error(f"there is no table {', '.join(sorted(unknown))}; choose from {', '.join(TABLES)}")
    top = args.work or pathlib.Path(tempfile.mkdtemp(prefix="geodither-results-"))
    prepare(top.resolve(), args.geolife.resolve(), args.gowalla.resolve())
    try:
        for name in args.tables or [*TABLES, "figures"]:
            began = time.monotonic()
            if name == "figures":
                figures()
                continue
            rows = TABLES[name]()  # all of them, before the old table is gone
            with open(args.out / f"{name}.csv", "w", newline="") as f:
                csv.writer(f, lineterminator="\n").writerows(rows)
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    finally:
        if not args.work:
            shutil.rmtree(top)


def prepare(top, geolife, gowalla):
    """Builds the program, and lays out the data in a folder for this build: GEOLIFE, TRAIN and TEST
    (users whose number is a multiple of three), HELD (their names), buses and check-ins."""
    global PROGRAM, WORK
    PROGRAM = top / "geodither"
    subprocess.run(["go", "build", "-trimpath", "-buildvcs=false", "-o", PROGRAM, "./cmd/geodither"],
                   cwd=REPOSITORY, check=True)
    WORK = top / hashlib.sha256(PROGRAM.read_bytes()).hexdigest()[:12]
    WORK.mkdir(parents=True, exist_ok=True)
    for name in ("GEOLIFE", "TRAIN", "TEST"):
        (WORK / name).mkdir(exist_ok=True)
    held = []
    for path in sorted(geolife.glob("*.csv.gz")):
        user = path.name.split(".")[0]
        for name in ("GEOLIFE", "TRAIN" if int(user) % 3 else "TEST"):
            link(path, WORK / name / path.name)
        if int(user) % 3 == 0:
            held.append(user)
    (WORK / "HELD").write_text("\n".join(held) + "\n")
    link(SAMPLE, WORK / "buses.csv")
    link(gowalla, WORK / "gowalla.txt.gz")


def link(path, at):
    if not at.is_symlink():
        at.symlink_to(path)


def run(command, env=None, cwd=None):
    """Runs a command once, and returns what it printed on both streams."""
    kept = WORK / (hashlib.sha256(f"{env} {command}".encode()).hexdigest()[:24] + ".log")
    if not kept.exists():
        words = shlex.split(command)
        if words[0] == "geodither":
            words[0] = str(PROGRAM)
        done = subprocess.run(words, cwd=cwd or WORK, env={**os.environ, **(env or {})}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f"{command}\n{done.stdout}")
        kept.write_text(done.stdout)
    return kept.read_text()


def go_test(package, name, env=None):
    return run(f"go test {package} -run ^{name}$ -count 1 -timeout 2h -v", env, REPOSITORY)


def rows_of(text):
    """The cells of the lines that a test printed as a table."""
    for line in text.splitlines():
        if ": | " in line:
            yield [c.strip() for c in line.split(": |")[1].strip(" |").split("|")]


# Models.

def trained(command):
    run(command)
    return command.split(" --out ")[1].split()[0]


def beijing(out="gl.avro", data="TRAIN", options=BEIJING):
    return trained(f"geodither train {options} --in {data} --out {out}")


def buses(cell=250):
    return trained(f"geodither train {BUSES} --cell {cell}m --in buses.csv --out buses{cell}.avro")


def los_angeles(data, out):
    return trained("geodither train --every-fix --box 33.7,-118.6,34.2,-118.0 --cell 890m --step 1h"
                   f" --in {data} --out {out}")


# Releases.

def sanitize(model, data, epsilon, mechanism="codebook", delta=None, minutes=None, seed=1):
    """Releases the traces and returns the figures of the command's summary, distances in km."""
    command = (f"geodither sanitize --model {model} --in {data} --out /dev/null --seed {seed} "
               f"--epsilon {epsilon:g} --mechanism {mechanism}")
    if delta is not None:
        command += f" --delta {delta:g}"
    if minutes:
        command += f" --interval {minutes:g}m"
    return summary(run(command))


def summary(text):
    found = {}
    for name, pattern in {
        "releases": r"users: (\d+) releases",
        "fixes": r"(\d+) fixes of",
        "spent": r"Σε per user: .*, ([\d.,]+) on average",
        "beside": r"a release (?:tells|uses(?: at most)?) (\d+) %",
        "hour": r"an ε of (?:at most )?([\d.]+) \(",
        "hour_largest": r"an ε of (?:at most )?[\d.]+ \(([\d.]+)\)",
        "cells": r"([\d.]+) cells (?:are possible|on average)",
        "drift": r"outside it in ([\d.]+) %",
    }.items():
        if match := re.search(pattern, text):
            found[name] = float(match[1].replace(",", ""))
    for name in ("release", "estimate", "blind"):
        if match := re.search(rf"^  {name}" + 3 * r" +([\d.]+) (k?m)" + "$", text, re.M):
            groups = match.groups()
            for i, of in enumerate(("rms", "mean", "median")):
                scale = 1 if groups[2 * i + 1] == "km" else 1000
                found[f"{name}_{of}"] = float(groups[2 * i]) / scale
    if "estimate_mean" not in found:
        sys.exit(f"no figures in:\n{text}")
    return found


def blind(model, data):
    """The errors of an estimate that sees no release, in km. They depend on the filter alone."""
    return summary(run(f"geodither sanitize --model {model} --in {data} --out /dev/null --seed 1 "
                       f"--epsilon 1 --report blind-{data}.json"))


def best_lattice(deltas=DELTAS, **release):
    runs = [(sanitize(mechanism="lattice", delta=d, **release), d) for d in deltas]
    return min(runs, key=lambda r: r[0]["estimate_mean"])


def km(x):
    return f"{x:.2f}" if x < 10 else f"{x:.1f}"


def spread(runs, of):
    values = [r[of] for r in runs]
    return f"{km(statistics.mean(values))} ± {statistics.stdev(values):.2f}"


def errors(r, of="estimate"):
    return km(r[of + "_mean"]), km(r[of + "_median"])


@table("release", "mechanism", "delta", "mean_km", "median_km")
def codebook_geolife():
    for epsilon, minutes in ((1, 1), (2, 1), (4, 1), (6, 10), (10, 10)):
        name = f"ε = {epsilon} every " + ("minute" if minutes == 1 else "ten minutes")
        release = dict(model=beijing(), data="TEST", epsilon=epsilon,
                       minutes=minutes if minutes > 1 else None)
        runs = [sanitize(**release, seed=s) for s in (1, 2, 3)]
        yield name, "codebook", "", spread(runs, "estimate_mean"), spread(runs, "estimate_median")
        yield name, "lattice", .01, *errors(sanitize(**release, mechanism="lattice", delta=.01))
        best, delta = best_lattice(**release)
        yield name, "lattice", delta, *errors(best)
    yield "none", "blind", "", *errors(blind(beijing(), "TEST"), "blind")


@table("epsilon", "codebook_rms_km", "lattice_0.3_rms_km")
def codebook_buses():
    text = go_test("./cmd/geodither", "TestBusErrors")
    found = dict(((e, m), km(float(x))) for e, m, x in
                 re.findall(r"ε = (\d), (\w+): ([\d.]+) km rms", text))
    for epsilon in "124":
        yield epsilon, found[epsilon, "codebook"], found[epsilon, "lattice"]


@table("cells", "other_buses_rms_km", "all_buses_rms_km")
def codebook_cells():
    lines = SAMPLE.read_text().splitlines()
    held = sorted({line.split(",")[0] for line in lines[1:]})
    for bus in held:
        for name, inside in ((f"{bus}.csv", True), (f"not-{bus}.csv", False)):
            (WORK / name).write_text("\n".join(lines[:1] + [
                line for line in lines[1:] if (line.split(",")[0] == bus) == inside]) + "\n")
    for cell in (250, 200, 175, 150):
        other = []
        for bus in held:
            model = trained(f"geodither train {BUSES} --cell {cell}m --in not-{bus}.csv "
                            f"--out not-{bus}-{cell}.avro")
            other += [sanitize(model, f"{bus}.csv", 4, seed=s) for s in range(1, 17)]
        every = [sanitize(buses(cell), "buses.csv", 4, seed=s) for s in range(1, 41)]
        yield f"{cell} m", *(f"{pooled_rms(runs):.3f}" for runs in (other, every))


def pooled_rms(runs):
    squares = sum(r["fixes"] * r["estimate_rms"] ** 2 for r in runs)
    return math.sqrt(squares / sum(r["fixes"] for r in runs))


@table("epsilon", "mechanism", "delta", "mean_km", "median_km")
def codebook_gowalla():
    """Trained on users whose number is no multiple of three; of the others those with 60 check-ins
    or more are released, each check-in at an hour of its own."""
    others = {}
    with gzip.open(WORK / "gowalla.txt.gz", "rt") as f, open(WORK / "others.txt", "w") as train:
        for line in f:
            fields = line.rstrip("\n").split("\t")
            if int(fields[0]) % 3:
                train.write(line)
            elif 33.7 <= float(fields[2]) <= 34.2 and -118.6 <= float(fields[3]) <= -118:
                others.setdefault(int(fields[0]), []).append(fields)
    with open(WORK / "checkins.csv", "w") as f:
        f.write("user_id,timestamp,latitude,longitude\n")
        for user, visits in sorted(others.items()):
            visits.sort(key=lambda v: v[1])
            for i, v in enumerate(visits if len(visits) >= 60 else []):
                f.write(f"{user},{1262304000000 + 3600000 * i},{v[2]},{v[3]}\n")
    model = los_angeles("others.txt", "others.avro")
    for epsilon in (1, 4, 10, 30):
        release = dict(model=model, data="checkins.csv", epsilon=epsilon)
        yield epsilon, "codebook", "", *errors(sanitize(**release))
        for delta in (.01, .3, .7):
            r = sanitize(**release, mechanism="lattice", delta=delta)
            yield epsilon, "lattice", delta, *errors(r)


@table("sum_epsilon_day", "release", "spent", "codebook_mean_km", "codebook_median_km",
       "lattice_0.5_mean_km", "lattice_0.5_median_km")
def day_plan():
    for total, epsilon, minutes in (
        (100, .7, 10), (100, 2.1, 30), (100, 4.2, 60), (300, 2.1, 10), (300, 6.25, 30),
        (1000, .7, None), (1000, 3.5, 5), (1000, 6.9, 10), (1000, 10.4, 15), (1440, 1, None),
        (1440, 10, 10), (3000, 2, None),
    ):
        every = f"{minutes} minutes" if minutes else "minute"
        release = dict(model=beijing(), data="TEST", epsilon=epsilon, minutes=minutes)
        r = sanitize(**release)
        yield (total, f"{epsilon} every {every}", round(r["spent"]), *errors(r),
               *errors(sanitize(**release, mechanism="lattice", delta=.5)))


@table("release", "releases", "sum_epsilon_mean", "drift", "release_rms_km", "estimate_rms_km",
       "estimate_mean_km", "estimate_median_km")
def when_to_release():
    for epsilon, minutes, delta in ((1, None, .01), (1, None, .3), (1, None, .7), (5, 5, .3),
                                    (10, 10, .01), (10, 10, .3), (20, 20, .3), (30, 30, .3)):
        r = sanitize(beijing(), "TEST", epsilon, "lattice", delta, minutes)
        yield (f"{epsilon} every {f'{minutes} minutes' if minutes else 'minute'}, δ = {delta}",
               round(r["releases"]), round(r["spent"]), f"{r['drift'] / 100:.3f}",
               km(r["release_rms"]), km(r["estimate_rms"]), *errors(r))


# Near places.

@table("data", "epsilon", "mechanism", "delta", "neighbours_told_apart", "hour_median",
       "hour_largest", "mean_km", "median_km")
def near_places():
    """Under the codebook the share of neighbouring pairs that a release tells apart by ε, under the
    lattice the mean share of ε that tells neighbours apart: of the median release."""
    for data, model, traces, seeds in (("Geolife", beijing, "TEST", [1]),
                                       ("buses", buses, "buses.csv", range(1, 9))):
        for epsilon in (4, 2, 1):
            for mechanism, delta in [("codebook", None)] + [("lattice", d) for d in
                                                            (.7, .5, .3, .01)]:
                runs = [sanitize(model(), traces, epsilon, mechanism, delta, seed=s)
                        for s in seeds]
                r = {k: statistics.mean(r[k] for r in runs) for k in runs[0]}
                yield (data, epsilon, mechanism, "" if delta is None else delta,
                       f"{r['beside'] / 100:.2f}", f"{r['hour']:.1f}", f"{r['hour_largest']:.0f}",
                       *errors(r))


# All mechanisms.

@table("data", "epsilon", "delta", "mechanism", "set_cells", "drift", "release_rms_km",
       "release_mean_km", "estimate_rms_km", "estimate_mean_km")
def mechanisms():
    mechanisms = ("lattice", "pim", "laplace", "laplace-tight")
    every = [(e, d, m) for e in (1, 2, 4) for d in (.001, .01, .1) for m in mechanisms]
    for epsilon, delta, mechanism in every:
        r = sanitize(beijing(), "TEST", epsilon, mechanism, delta)
        yield ("Geolife", epsilon, delta, mechanism, round(r["cells"]), f"{r['drift'] / 100:.4f}",
               f"{r['release_rms']:.1f}", f"{r['release_mean']:.1f}", km(r["estimate_rms"]),
               km(r["estimate_mean"]))
    for epsilon, delta, mechanism in every:
        r = expected(beijing(), f"mechanism: {mechanism}, epsilon: {epsilon}, delta: {delta}, "
                     "interval: 1m, budget: none")
        rms, mean = (r["release_m"][of] / 1000 for of in ("rms", "mean"))
        yield ("tracks of the model", epsilon, delta, mechanism, round(r["location_set_mean"]),
               f"{r['drift_ratio']:.4f}", f"{rms:.1f}", f"{mean:.1f}",
               *(km(r["estimate_m"][of] / 1000) for of in ("rms", "mean")))


def expected(model, release):
    """What "model inspect" announces of releases on tracks that move as the model says."""
    command = f"geodither model inspect --json -c {configured(release)} {model}"
    return json.loads(run(command))["expected"]


def configured(release):
    """Writes a config with these settings of releases, and returns its file's name."""
    config = WORK / (hashlib.sha256(release.encode()).hexdigest()[:12] + ".yml")
    config.write_text(f"release: {{{release}}}\n")
    return config.name


def read(folder, name):
    with open(WORK / folder / "tables" / f"{name}.csv", newline="") as f:
        return list(csv.DictReader(f))


# Announced figures, plans, states.

@table("traces", "budget_a_day", "announced_mean", "measured_mean", "quotient",
       "quotient_of_the_blind_error")
def announced():
    simulated = dict(re.findall(r"(\w[\w ]*): announced / measured is ([\d.]+)",
                                go_test("./cmd/internal/sanitize", "TestAnnouncedIsMeasured")))
    for name, text, budget in (
        ("2 h", "every 2 min, lasts 2 h", 1200), ("8 h", "every 8 min, lasts 8 h", 1200),
        ("a day", "every 24 min, lasts a day", 1200),
        ("hours", "every 10 min, reports from 6 to 18 h alone", "none"),
        ("none", "every 10 min", "none"),
    ):
        yield f"simulated: {text}", budget, "", "", f"{float(simulated[name]):.2f}", ""
    for budget, written in (("none", "none"), ("96", "{epsilon: 96, window: 24h}")):
        for data, model, traces in (("buses", buses(), "buses.csv"), ("Geolife", beijing(), "TEST")):
            release = f"mechanism: codebook, epsilon: 4, interval: 10m, budget: {written}"
            e = expected(model, release)
            config = configured(release)
            r = summary(run(f"geodither sanitize --model {model} -c {config} --in {traces} "
                            "--out /dev/null --seed 1"))
            lasting = e["estimate_budget_lasting_m"]["mean"] / 1000
            yield (data, budget, km(lasting), km(r["estimate_mean"]),
                   f"{lasting / r['estimate_mean']:.2f}",
                   f"{e['blind_m']['mean'] / 1000 / blind(model, traces)['blind_mean']:.2f}")


@table("sum_epsilon_day", "data", "releases", "median_km", "mean_km", "gain")
def tuning():
    for data, traces, box in (("Geolife", "TRAIN", "39.85,116.27,39.97,116.50"),
                              ("buses", "buses.csv", "53.40,-2.99,53.47,-2.89")):
        shutil.rmtree(WORK / f"tuned-{data}", ignore_errors=True)
        command = f"geodither tune --in {traces} --box {box} --target-epsilon 20 --out tuned-{data}"
        print(run(command), file=open(WORK / f"tuned-{data}.txt", "w"))
        plans = read(f"tuned-{data}", "plans")
        first = plans[0]
        yield 0, data, "", *(km(float(first[f"blind {of}, km"])) for of in ("median", "mean")), ""
        for p in plans:
            every = f", every {p['every']}" if p["releases a day"] != "1" else ""
            yield (p["Σε a day"], data, f"{p['releases a day']} × {p['ε']}{every}",
                   *(km(float(p[f"{of} error, km"])) for of in ("median", "mean")),
                   f"{100 * float(p['gain']):.0f} %")


@table("data", "epsilon", "bytes_mean", "bytes_90", "cells_mean", "cells_90")
def state_size():
    env = {"GEODITHER_STATES": str(WORK / "TEST"), "GEODITHER_STATES_MODEL": str(WORK / beijing())}
    yield from rows_of(go_test("./cmd/geodither", "TestStateSize", env))


# Mobility models.

def fit(command):
    return json.loads(run(command + " --json").splitlines()[-1])


def bounds(c):
    return f"{c['drift']:.3f} ({c.get('drift_low', 0):.3f} to {c.get('drift_high', 0):.3f})"


def in_km(f, of):
    return tuple(km(f[of][x] / 1000) for x in ("mean", "median"))


@table("smoothing", "delta", "drift", "set_cells", "mean_km", "median_km", "blind_mean_km",
       "blind_median_km")
def models_beijing():
    for i, (name, smoothing) in enumerate((
        ("default", "radius=5"),
        ("chosen by cross-validation on TRAIN alone: radius 4, jumps 0.02", "radius=4,jumps=0.02"),
        ("chosen by one-step likelihood: back-off 10, cap 100, no jumps",
         "backoff=10,cap=100,jumps=0"),
    )):
        model = beijing(f"joined{i}.avro", "GEOLIFE",
                        f"{BEIJING} --interpolate 5m --smoothing {smoothing}")
        f = fit(f"geodither model fit {model} --in GEOLIFE --held-out HELD")
        for c in f["calibration"]:
            rest = in_km(f, "estimate_m") + in_km(f, "blind_m") if c["delta"] == .01 else ("",) * 4
            yield (name, c["delta"], bounds(c), round(c["set_mean"]), *rest)


@table("radius", "impossible_moves", "drift", "set_cells", "mean_km", "median_km", "blind_mean_km",
       "blind_median_km", "model_bytes")
def models_small_cells():
    for radius in (5, 10):
        model = beijing(f"small{radius}.avro", "GEOLIFE", BEIJING.replace("340m", "170m") +
                        f" --interpolate 5m --smoothing radius={radius}")
        f = fit(f"geodither model fit {model} --in GEOLIFE --held-out HELD")
        c = next(c for c in f["calibration"] if c["delta"] == .01)
        yield (radius, f"{100 * f['impossible']:.2f} %", bounds(c), round(c["set_mean"]),
               *in_km(f, "estimate_m"), *in_km(f, "blind_m"), (WORK / model).stat().st_size)


@table("delta", "drift", "set_cells", "mean_km", "median_km", "blind_mean_km", "blind_median_km")
def models_los_angeles():
    model = los_angeles("gowalla.txt.gz", "la.avro")
    f = fit(f"geodither model fit {model} --in gowalla.txt.gz --held-out 0.2")
    for c in f["calibration"]:
        rest = in_km(f, "estimate_m") + in_km(f, "blind_m") if c["delta"] == .01 else ("",) * 4
        yield c["delta"], bounds(c), round(c["set_mean"]), *rest


@table("epsilon_model", "ln_likelihood_of_a_step", "drift_0.01", "drift_0.1", "set_cells",
       "mean_km", "median_km", "ln_prior")
def models_private():
    """Their noise is fresh, so these figures differ from run to run by what is in brackets."""
    for epsilon, runs in ((.5, 4), (1, 4), (4, 4), (900, 4), ("none", 1)):
        fits = []
        for i in range(runs):
            private = "" if epsilon == "none" else f"--dp-epsilon {epsilon}"
            model = beijing(f"private{epsilon}-{i}.avro", options=f"{BEIJING} {private}")
            fits.append(fit(f"geodither model fit {model} --in TEST"))
        mean = lambda of: statistics.mean(of(f) for f in fits)
        at = lambda delta, what: mean(lambda f: next(c[what] for c in f["calibration"]
                                                     if c["delta"] == delta))
        likely = sorted(f["log_likelihood"] for f in fits)
        brackets = f" ({likely[0]:.3f} to {likely[-1]:.3f})" if runs > 1 else ""
        yield (epsilon, f"{statistics.mean(likely):.3f}{brackets}", f"{at(.01, 'drift'):.3f}",
               f"{at(.1, 'drift'):.3f}", round(at(.01, "set_mean")),
               *(km(mean(lambda f: f["estimate_m"][x]) / 1000) for x in ("mean", "median")),
               f"{mean(lambda f: f['log_prior']):.2f}")


# What it costs. These figures are of a quiet machine or of none.

@table("grid", "epsilon", "codebook_us", "lattice_0.01_us")
def step_cost():
    least = {}
    for i in range(2):
        text = run("go test ./mechanism -run ^$ -bench Step$ -benchtime 2000x", {"RUN": str(i)},
                   REPOSITORY)
        for key, ns in re.findall(r"BenchmarkStep/(\S+)/release-\d+\s+\d+\s+([\d.]+) ns/op", text):
            least[key] = min(float(ns) / 1000, least.get(key, math.inf))
    for grid in ("road", "dense"):
        for epsilon in (1, 4):
            yield (f"{grid} grid", epsilon, *(f"{least[f'{m}_{grid}_ε={epsilon}']:.0f}"
                                              for m in ("codebook", "lattice")))


@table("command", "one_core_s", "two_cores_s", "ratio")
def two_cores():
    model = beijing()
    seconds = {1: [], 2: []}
    for i in range(3):
        for cores in seconds:
            began = time.monotonic()
            run(f"geodither sanitize --model {model} --in TEST --out /dev/null --seed 1 --epsilon 1",
                {"GOMAXPROCS": str(cores), "RUN": f"{time.time()}"})
            seconds[cores].append(time.monotonic() - began)
    one, two = (min(seconds[c]) for c in seconds)
    yield "sanitize", f"{one:.1f}", f"{two:.1f}", f"{one / two:.2f}"


# The paper.


def paper_run():
    run("geodither evaluate --data geolife=GEOLIFE --data gowalla=gowalla.txt.gz --also "
        "lattice,laplace-tight,paper-inference --experiment "
        "over-time,parameters,knn,adversaries,mechanisms --out paper")
    return "paper"


@table("data_and_model", "epsilon", "delta", "mechanism", "set_cells", "drift", "release_rms_km",
       "estimate_rms_km", "blind_rms_km")
def paper():
    found = {}
    for r in read(paper_run(), "parameters"):
        brackets = f" ({r['low']} to {r['high']})" if r["low"] else ""
        key = f"{r['data'].capitalize()}, {r['model']}", r["mechanism"], r["epsilon"], r["delta"]
        found.setdefault(key, {})[r["metric"]] = r["value"] + brackets
    blinds = {key[0]: f["estimate"] for key, f in found.items() if key[1] == "blind"}
    for name, settings in (
        ("Geolife, popular", ((.1, .01), (1, .01), (2, .01), (1, .001), (1, .1))),
        ("Geolife, personal", ((.1, .01), (1, .01), (2, .01), (1, .1))),
        ("Gowalla, popular", ((.1, .01), (1, .01), (2, .01), (1, .1))),
    ):
        for epsilon, delta in settings:
            for mechanism in ("LM", "PIM"):
                f = found[name, mechanism, f"{epsilon:g}", f"{delta:g}"]
                yield (name, epsilon, delta, mechanism,
                       *(f[of] for of in ("set", "drift", "release", "estimate")), blinds[name])


@table("adversary", "data", "sees", "true_cell", "entropy_bits", "best_guess_rms_km")
def adversaries():
    for data in ("Geolife", "Gowalla"):
        for r in read(paper_run(), f"adversaries-{data.lower()}"):
            adversary, *rest = r.values()
            yield adversary, data, *rest


def figures():
    """Draws the figures of the buses again."""
    run("geodither evaluate --out buses")
    for figure in (HERE.parent / "figures").glob("*.svg"):
        shutil.copy(WORK / "buses" / "figures" / figure.name, figure)


if __name__ == "__main__":
    main()
