#!/usr/bin/env python3
"""Measures geodither beside Kafka Streams on a real Apache Kafka: "make bench-kafka" runs this.

It starts a cluster of one node in a folder of its own, works through the same raw topic with both
sides in turn, several times, and prints one table: the minimum and the median of each figure. CPU
time is what counts; a rate depends on what else the machine does. BENCH.md says what each line is.

Kafka Streams (Peer.java) does the same work without the mathematics, with states as large as those
of geodither in the same run.
"""
import argparse, json, os, pathlib, re, shutil, signal, socket, statistics, subprocess, sys
import tempfile, threading, time, urllib.request

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
PARTITIONS = 4
OUTPUT_BYTES = 170  # of a sanitized record, about
ROWS = ["small", "liverpool", "plan", "many", "geolife", "counts", "idle", "steady"]
SESSION_S = 10  # session timeout of both in the rows
COUNTED_BYTES = 40  # of a counted user's state, about
DAY = 2880  # steps of 30 s
RECORD_BYTES = 25  # of a record in a log beside its value: key and lengths, about


def main():
    args = arguments()
    work = pathlib.Path(tempfile.mkdtemp(prefix="geodither-bench-"))
    bench = Bench(args, work)
    try:
        bench.prepare()
        for row in bench.rows():
            for run in range(args.runs):
                for side in (Geodither, Streams):
                    bench.measure(row, side, run)
        for line, measure in (("idle", bench.idle), ("steady", bench.steady)):
            for run in range(args.runs if line in args.rows else 0):
                for side in (Geodither, Streams):
                    measure(side, run)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the second Ctrl-C must not leave Kafka behind
        try:
            bench.report()  # also what there is when somebody has had enough
        finally:
            bench.close()
            if args.keep:
                print(f"kept: {work}")
            else:
                shutil.rmtree(work, ignore_errors=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--runs", type=int, default=3, help="runs of each side and row")
    p.add_argument("--rows", type=lambda text: text.split(","),
                   help="those of " + ",".join(ROWS) + " that are measured; default all, geolife "
                   "only with --geolife")
    p.add_argument("--records", type=int, default=1_000_000, help="records of a row")
    p.add_argument("--users", type=int, default=10_000, help="users of the other rows")
    p.add_argument("--many", type=int, default=1_000_000,
                   help="users of the row many, which has four records of each at least")
    p.add_argument("--mechanism", default="codebook", choices=["codebook", "lattice"],
                   help="geodither's mechanism, default codebook; lattice has δ = 0.01")
    p.add_argument("--geolife", metavar="MODEL", help="a model of Geolife for the row geolife")
    p.add_argument("--quick", action="store_true", help="one small run of everything: a first look")
    p.add_argument("--profiles", metavar="FOLDER", type=pathlib.Path,
                   help="write a CPU profile of ten seconds of geodither to it in each row")
    p.add_argument("--keep", action="store_true", help="keep the folder with logs and stores")
    args = p.parse_args()
    if args.rows is None:
        args.rows = [row for row in ROWS if row != "geolife" or args.geolife]
    if unknown := set(args.rows) - set(ROWS):
        p.error(f"--rows: {', '.join(unknown)} is none of {', '.join(ROWS)}")
    if "geolife" in args.rows and not args.geolife:
        p.error("--rows: geolife needs a model: --geolife MODEL")
    if args.geolife and not pathlib.Path(args.geolife).is_file():
        p.error(f"--geolife: {args.geolife} is no file")
    if args.quick:
        args.runs, args.records, args.users, args.many = 1, 40_000, 2_000, 40_000
    return args


def run(*command):
    """Runs a command to its end; its output is shown if it fails."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY)
    if done.returncode:
        sys.exit(f"bench-kafka: {' '.join(map(str, command))}\n{done.stdout[-3000:]}")
    return done.stdout


def await_(what, seconds, done):
    """Calls done until it returns something true, and returns that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := done():
            return found
        time.sleep(0.05)
    raise SystemExit(f"bench-kafka: waited {seconds} s for {what}")


class Process:
    """A process and what the kernel counts of it."""

    def __init__(self, command, log):
        self.log = open(log, "w")
        self.command = [str(c) for c in command]
        self.p = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        self.pid, self.path = self.p.pid, log

    def cpu(self):
        return cpu(self.pid)

    def written(self):
        return int(field(f"/proc/{self.pid}/io", "write_bytes:"))

    def max_rss_mb(self):
        return int(field(f"/proc/{self.pid}/status", "VmHWM:")) / 1024

    def stop(self, how=signal.SIGTERM):
        """Ends the process, and returns the bytes that it had written to the disk by then."""
        if self.p.poll() is None:
            self.p.send_signal(how)
        written, end = 0, time.monotonic() + 60
        while self.p.poll() is None and time.monotonic() < end:
            try:
                written = self.written()
            except (OSError, TypeError):  # it has just ended
                pass
            time.sleep(0.002)
        self.p.kill()
        self.p.wait()
        self.log.close()
        return written

    def read(self):
        """The log."""
        return pathlib.Path(self.path).read_text()

    def last(self):
        """The last whole line of name=value of the log."""
        lines = self.read().split("\n")[:-1]
        lines = [line for line in lines if "=" in line and " " not in line.split("=")[0]]
        return dict(pair.split("=") for pair in lines[-1].split()) if lines else {}

    def alive(self):
        if self.p.poll() is not None:
            raise SystemExit(f"bench-kafka: it has ended: see {self.path}\n"
                             + pathlib.Path(self.path).read_text()[-2000:])


def field(path, name):
    for line in open(path):
        if line.startswith(name):
            return line.split()[1]


def cpu(pid):
    """Seconds of CPU time."""
    f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % s.getsockname()[1]


class Geodither:
    name = "geodither"

    def __init__(self, bench, group, raw, folder, release):
        self.address, self.pprof = free_address(), free_address()
        self.out, self.changelog = group + "-out", group + "-changelog"
        command = release.get("command", "run")
        if command == "counts serve":
            self.changelog = group + "-counts-changelog"
        config = configure(bench, group, raw, folder, release, {
            "http": {"listen": self.address, "pprof": self.pprof}})
        self.process = Process([bench.binary] + command.split() + ["-c", config], folder / f"log-{time.time()}")

    def metrics(self):
        self.process.alive()
        try:
            with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        sums = {}
        for line in lines:
            if not line.startswith("#"):
                name = line.split("{")[0].split(" ")[0]
                sums[name] = sums.get(name, 0) + float(line.rsplit(" ", 1)[1])
        return sums

    def records(self):
        return int(self.metrics().get("geodither_records_read_total", 0))

    def started(self):
        """Whether the errors to expect are announced, which are simulated beside the first records."""
        return "counts" in self.process.command or "expected error" in self.process.read()

    def profile(self, path):
        """Writes a CPU profile of the next ten seconds in a thread, which it returns."""
        path.parent.mkdir(parents=True, exist_ok=True)
        urls = f"http://{self.pprof}/debug/pprof/profile?seconds=10", path
        thread = threading.Thread(target=urllib.request.urlretrieve, args=urls, daemon=True)
        thread.start()
        return thread

    def requests(self):
        return int(self.metrics().get("geodither_kafka_request_seconds_count", 0))

    def ready(self):
        self.process.alive()
        try:
            with urllib.request.urlopen(f"http://{self.address}/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False


def configure(bench, group, raw, folder, release, more=None):
    """Writes a config of geodither, and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    mechanism = {"mechanism": bench.args.mechanism, "epsilon": release["epsilon"],
                 "budget": "none"} | release.get("plan", {})
    if bench.args.mechanism == "lattice":
        mechanism["delta"] = 0.01
    config = {
        "brokers": [bench.brokers], "group": group,
        "topics": {"raw": raw, "sanitized": group + "-out", "changelog": group + "-changelog",
                   "create": True, "partitions": release.get("partitions", PARTITIONS)},
        "model": str(release["model"]), "key_file": str(bench.work / "noise.key"),
        "state_dir": str(folder / "state"), "release": mechanism,
    }
    if release.get("command") == "counts serve":
        config["counts"] = {"epsilon": 1, "per_day": 8, "zone": "1km", "window": "1h"}
    path = folder / "geodither.yml"
    path.write_text(json.dumps(config | (more or {})))
    return path


class Streams:
    name = "Streams"

    def __init__(self, bench, group, raw, folder, release):
        self.out, self.changelog = group + "-out", group + "-states-changelog"
        folder.mkdir(parents=True, exist_ok=True)
        self.process = Process(bench.peer + [
            "streams", f"in={raw}", f"out={self.out}", f"state={bench.state_bytes(release)}",
            f"output={OUTPUT_BYTES}", f"bootstrap.servers={bench.brokers}",
            f"application.id={group}", "replication.factor=1", f"state.dir={folder / 'state'}",
        ] + release.get("streams", []), folder / f"log-{time.time()}")

    def last(self, name):
        self.process.alive()
        return int(self.process.last().get(name, 0))

    def records(self):
        return self.last("records")

    def started(self):
        return True

    def requests(self):
        return self.last("requests")

    def ready(self):
        return self.last("running") == 1


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.figures = {}  # (row, line, side) → values
        self.loads = [os.getloadavg()[0]]
        self.states = {}  # row → bytes of a state in each run
        self.processes = []
        self.binary = work / "geodither"

    def prepare(self):
        run("env", "CGO_ENABLED=0", "go", "build", "-o", self.binary, "./cmd/geodither")  # as shipped
        classpath = self.work / "classpath"
        run("mvn", "-B", "-q", "-f", HERE / "pom.xml", "-Pstreams", "dependency:build-classpath",
            "-DincludeScope=runtime", f"-Dmdep.outputFile={classpath}")
        on = classpath.read_text()
        run("javac", "-d", self.work / "peer", "-cp", on, HERE / "Peer.java")
        self.peer = ["java", "-Xmx1g", "-Dlog4j2.level=ERROR", "-cp",
                     f"{self.work / 'peer'}:{on}", "Peer"]
        run(HERE / "kafka.sh", "up", "--dir", self.work / "kafka")
        self.brokers = (self.work / "kafka/brokers").read_text().strip()
        self.broker_pid = int((self.work / "kafka/node-1/pid").read_text())
        run(self.binary, "key", "new", self.work / "noise.key")
        self.model = self.work / "model.avro"
        run(self.binary, "train", "--in", "cmd/internal/fleet/sample/liverpool.csv", "--box",
            "53.40,-2.99,53.47,-2.89", "--cell", "250m", "--step", "30s", "--out", self.model)

    def close(self):
        try:
            for p in self.processes:
                p.stop(signal.SIGKILL)
        finally:
            subprocess.run([HERE / "kafka.sh", "down", "--dir", self.work / "kafka"],
                           stdout=subprocess.DEVNULL)

    def rows(self):
        users, many = self.args.users, self.args.many
        models = dict.fromkeys(["small", "liverpool", "plan", "many"], self.model)
        if self.args.geolife:
            models["geolife"] = pathlib.Path(self.args.geolife).resolve()
        models["counts"] = self.model
        names = {"small": "small states", "counts": "counts", "liverpool": "Liverpool, ε = 1",
                 "many": f"{many:,} users", "geolife": "Geolife, ε = 1",
                 "plan": "a plan of 20 a day"}
        plan = {"interval": "40m", "budget": {"epsilon": 20, "window": "24h"}}
        for row, model in models.items():
            if row in self.args.rows:
                yield {"name": names[row], "model": model,
                       "command": "counts serve" if row == "counts" else "run",
                       "epsilon": {"small": 4, "many": 4, "plan": 6.6}.get(row, 1),
                       "plan": plan if row == "plan" else {},
                       "users": {"many": many, "plan": max(PARTITIONS, self.args.records // DAY)
                                 }.get(row, users)}

    def raw(self, row):
        """Feeds the raw topic of a row and returns its name and its records."""
        topic = f"raw-{row['users']}-{row['model'].stem}-{row['command'].split()[0]}"
        # What is measured begins after a quarter of the records, when all users have a state.
        steps = max(self.args.records // row["users"], 4)
        if not (self.work / "kafka/node-1/data" / f"{topic}-0").exists():
            if row["command"] == "counts serve":  # which wants the broker's times
                run(self.binary, "topics", "create", "-c",
                    configure(self, topic, topic, self.work / topic, row))
            run(self.binary, "produce", "--brokers", self.brokers, "--topic", topic, "--create",
                PARTITIONS, "--simulate", row["users"], "--model", row["model"], "--steps", steps)
        return topic, steps * row["users"]

    def state_bytes(self, row):
        if row.get("command") == "counts serve":
            return COUNTED_BYTES
        return int(statistics.median(self.states.get(row["name"], [700])))

    def start(self, side, *args):
        s = side(self, *args)
        self.processes.append(s.process)
        return s

    def note(self, row, line, side, value):
        self.figures.setdefault((row, line), {}).setdefault(side.name, []).append(value)
        self.loads.append(os.getloadavg()[0])
        print(f"  {row}, {side.name}: {line} {value:.4g}", flush=True)

    def log_bytes(self, topic):
        data = self.work / "kafka/node-1/data"
        files = [f for n in range(PARTITIONS) for f in data.glob(f"{topic}-{n}/*.log")]
        return sum(f.stat().st_size for f in files)

    def measure(self, row, side, number):
        """Works through a backlog, then restores the state from nothing."""
        raw, records = self.raw(row)
        group = f"{side.name}-{self.work.name[-4:]}-{list(self.rows()).index(row)}-{number}"
        row = row | {"streams": [f"session.timeout.ms={SESSION_S * 1000}"]}
        folder = self.work / group
        s = self.start(side, group, raw, folder, row)
        # The start, and what a JVM compiles first, are no part of the figure, unless half of the
        # records are done by then.
        seen = await_("records", 600, lambda: (n := s.records()) > records // 4 and
                      (s.started() or n > records // 2) and n)
        began, broker = s.process.cpu(), cpu(self.broker_pid)
        profile = None
        if side is Geodither and self.args.profiles:
            profile = s.profile(self.args.profiles / f"{row['name'].split()[0]}-{number}.pprof")
        await_("the end of the backlog", 3600, lambda: s.records() >= records)
        time.sleep(1)  # the last commit
        worked = records - seen
        used, broker = s.process.cpu() - began, cpu(self.broker_pid) - broker
        name = row["name"]
        changelog = self.log_bytes(s.changelog)
        self.note(name, "CPU µs an event", side, used / worked * 1e6)
        self.note(name, "broker's CPU µs an event", side, broker / worked * 1e6)
        self.note(name, "CPU µs an event, with the start", side, s.process.cpu() / records * 1e6)
        written = changelog / records
        self.note(name, "changelog bytes an event", side, written)
        self.note(name, "max RSS, MB", side, s.process.max_rss_mb())
        if profile:  # takes ten seconds, and a short backlog less
            profile.join()
        # What a clean stop writes counts too: both keep their last states in memory until then.
        self.note(name, "disk bytes an event", side, s.process.stop() / records)
        changelog = self.log_bytes(s.changelog)
        states = list(folder.glob("state*"))  # counts have one for each stage
        kept = sum(f.stat().st_size for d in states for f in d.rglob("*") if f.is_file())
        self.note(name, "bytes of the state folder a user", side, kept / row["users"])
        self.note(name, "MB of the changelog to restore", side, changelog / 1e6)
        for d in states:
            shutil.rmtree(d)
        if side is Streams:
            time.sleep(SESSION_S + 1)  # it does not leave its group, so the next one would wait
        began = time.monotonic()
        s = self.start(side, group, raw, folder, row)
        await_("a restore", 900, s.ready)
        self.note(name, "restore, s from the start to ready", side, time.monotonic() - began)
        s.process.stop()
        if side is Geodither and row["command"] == "run":
            # The peer gets the larger of two means: that of the states that are restored, after the
            # changelog was compacted perhaps, and that of the states that were written, which is
            # too low where a transaction holds several records of a user.
            # Under load a group may be joined again, so a partition is restored twice.
            read = {}
            for partition, n in re.findall(r" partition=(\d+) .* changelog_records=(\d+)",
                                           pathlib.Path(s.process.path).read_text()):
                read[partition] = max(int(n), read.get(partition, 0))
            states = self.states.setdefault(name, [])
            each = max(changelog / max(sum(read.values()), 1), written)
            states.append(max(8, int(each) - RECORD_BYTES))
            self.note(name, "bytes of a state", side, states[-1])

    def idle(self, side, number):
        """Counts requests of an instance with 64 partitions and nothing to do."""
        raw, group = "idle", f"{side.name}-idle-{number}"
        row = {"name": "idle", "model": self.model, "epsilon": 4, "partitions": 64}
        if number == 0 and side is Geodither:
            run(self.binary, "produce", "--brokers", self.brokers, "--topic", raw, "--create", 64,
                "--simulate", 500, "--model", self.model, "--steps", 1)
        s = self.start(side, group, raw, self.work / group, row)
        await_("idle partitions", 300, lambda: s.records() >= 500 and s.ready())
        time.sleep(5)
        began, used = s.requests(), s.process.cpu()
        time.sleep(15)
        requests, used = s.requests() - began, s.process.cpu() - used
        self.note("idle, 64 partitions", "requests a second", side, requests / 15)
        self.note("idle, 64 partitions", "CPU ms a second", side, used / 15 * 1e3)
        s.process.stop()

    def steady(self, side, number):
        """Two instances and a steady rate: how late records are, and what a kill -9 costs."""
        raw, group = f"steady-{side.name}-{number}", f"{side.name}-steady-{number}"
        row = {"name": "small states", "model": self.model, "epsilon": 4}
        rate = 500 if self.args.quick else 2000
        feed = Process([self.binary, "produce", "--brokers", self.brokers, "--topic", raw,
                        "--create", PARTITIONS, "--simulate", 1000, "--model", self.model,
                        "--steps", 400, "--rate", rate], self.work / f"{group}.feed")
        self.processes.append(feed)
        first = self.work / "kafka/node-1/data" / f"{raw}-0"
        await_("the raw topic", 60, first.exists)
        both = [self.start(side, group, raw, self.work / f"{group}-{i}", row) for i in range(2)]
        await_("two instances", 300, lambda: all(s.ready() for s in both))
        await_("the first records", 300, lambda: all(s.records() >= 500 for s in both))
        time.sleep(5)
        for line, seconds in (("latency", 20), ("failover", 75)):
            reader = Process(self.peer + ["read", f"topic={both[0].out}", f"seconds={seconds}",
                                          f"bootstrap.servers={self.brokers}"],
                             self.work / f"{group}.{line}")
            self.processes.append(reader)
            await_("the reader", 300, lambda: "ready" in reader.last())
            if line == "failover":
                time.sleep(3)
                both[1].process.stop(signal.SIGKILL)
            await_("the reader's end", 150, lambda: "read" in reader.last())
            reader.stop()
            got, name = reader.last(), f"steady, {rate} a second"
            if line == "failover":
                self.note(name, "s of silence after kill -9", side, int(got["silence"]) / 1e3)
                continue
            self.note(name, "latency p50, ms", side, int(got["p50"]))
            self.note(name, "latency p99, ms", side, int(got["p99"]))
        feed.stop()
        both[0].process.stop()

    def report(self):
        if not self.figures:
            return
        print(f"\n{' '.join(sys.argv)}, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load "
              f"{min(self.loads):.0f} to {max(self.loads):.0f}: minimum / median of up to "
              f"{self.args.runs} runs\n")
        print("| | | geodither | Streams |\n|---|---|---|---|")
        before = ""
        for (row, line), sides in self.figures.items():
            cells = [cell(sides.get(side.name)) for side in (Geodither, Streams)]
            print(f"| {row if row != before else ''} | {line} | {cells[0]} | {cells[1]} |")
            before = row


def cell(values):
    if not values:
        return ""
    both = min(values), statistics.median(values)
    text = [f"{v:,.0f}" if v >= 100 else f"{v:.1f}" for v in both]
    return " / ".join(dict.fromkeys(text))


if __name__ == "__main__":
    main()
