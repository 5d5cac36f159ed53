# The commands behind the tables of this folder, to run by hand. What varies stands above each. The
# script that ran all of them is results/measure.py of commit f99015c4.
#
# GEOLIFE is a folder with one CSV file a user, cut to Beijing's 3rd ring, and HELD the names of
# those whose number is a multiple of three. TEST has their files, TRAIN the others. buses.csv is
# cmd/internal/fleet/sample/liverpool.csv, gowalla.txt.gz SNAP's check-ins.

# codebook-geolife, when-to-release, day-plan, near-places, mechanisms: by --epsilon, --interval,
# --delta, --mechanism and --seed. The estimate's line of the summary is the table's.
geodither train --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --in TRAIN --out gl.avro
geodither sanitize --model gl.avro --in TEST --out /dev/null --seed 1 --epsilon 10 --interval 10m

# codebook-cells, near-places: by --cell and --epsilon, each bus under a model of the others.
geodither train --box 53.40,-2.99,53.47,-2.89 --cell 250m --step 30s --in buses.csv --out buses.avro
geodither sanitize --model buses.avro --in buses.csv --out /dev/null --seed 1 --epsilon 4

# codebook-gowalla: users with 60 check-ins or more, each check-in at an hour of its own.
geodither train --every-fix --box 33.7,-118.6,34.2,-118.0 --cell 890m --step 1h --in gowalla.txt.gz --out la.avro
geodither sanitize --model la.avro --in checkins.csv --out /dev/null --seed 1 --epsilon 10

# codebook-buses, announced, state-size, step-cost.
go test ./cmd/geodither -run TestBusErrors -v
go test ./cmd/internal/sanitize -run TestAnnouncedIsMeasured -v
GEODITHER_STATES=TEST GEODITHER_STATES_MODEL=gl.avro go test ./cmd/geodither -run TestStateSize -v
go test ./mechanism -run '^$' -bench 'Step$' -benchtime 2000x

# The bounds on one moment.
GEODITHER_MOMENT=gl.avro go test ./mechanism/follow -run TestTable -v

# announced: the lasting estimate beside that of sanitize with the same config.
geodither model inspect --json -c geodither.yml gl.avro

# least-mass: by the constant of the state's least mass.
geodither smooth --model gl.avro --in sanitized.csv --lag 10m

# tuning
geodither tune --in TRAIN --box 39.85,116.27,39.97,116.50 --target-epsilon 20 --out tuned

# models-beijing, models-small-cells: by --smoothing; models-los-angeles; models-private: by
# --dp-epsilon.
geodither train --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --interpolate 5m --smoothing radius=5 --in GEOLIFE --out joined.avro
geodither model fit joined.avro --in GEOLIFE --held-out HELD
geodither model fit la.avro --in gowalla.txt.gz --held-out 0.2
geodither train --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --interpolate 5m --dp-epsilon 1 --in TRAIN --out private.avro

# two-cores: with GOMAXPROCS=1 and 2.
geodither aggregate --model gl.avro --in sanitized.csv --window 1h --zone 1km --out zones.csv

# paper, adversaries; the charts in ../figures are of the second command.
geodither evaluate --data geolife=GEOLIFE --data gowalla=gowalla.txt.gz --also lattice,laplace-tight,paper-inference --out paper
geodither evaluate --out buses

# typical-day: "once" are vehicles of counts --typical, "daily" the mean of daily counts at ε = 1,
# peer dp_mobility_report. Its noise differs from run to run.
make typical DATA=GEOLIFE
