package service_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/producer"
)

// disk is a world whose broker keeps its partitions in folders.
type disk struct {
	*servicetest.World
	t   *testing.T
	dir string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	dir := t.TempDir()
	broker, err := devbroker.Start(devbroker.Options{Dir: dir})
	servicetest.OK(t, err)
	d := &disk{World: servicetest.NewWorldAt(t, broker.Addr(), 12), t: t, dir: dir}
	d.Broker = broker
	t.Cleanup(func() { _ = d.Broker.Close() })
	return d
}

// while stops the broker, does something to its disk, and starts it again.
func (d *disk) while(do func()) {
	d.t.Helper()
	servicetest.OK(d.t, d.Broker.Close())
	do()
	_, port, err := net.SplitHostPort(d.Addr)
	servicetest.OK(d.t, err)
	number, err := strconv.Atoi(port)
	servicetest.OK(d.t, err)
	d.Broker, err = devbroker.Start(devbroker.Options{Dir: d.dir, Port: number})
	servicetest.OK(d.t, err)
	d.Client = kafkaconn.NewClient([]string{d.Addr})
	d.Feeder, err = producer.NewIdempotent(d.Client, producer.Options{})
	servicetest.OK(d.t, err)
}

// folders are those of a topic's partitions.
func (d *disk) folders(topic string) []string {
	d.t.Helper()
	found, err := filepath.Glob(filepath.Join(d.dir, "partitions", topic+"-*"))
	servicetest.OK(d.t, err)
	if len(found) != servicetest.Partitions {
		d.t.Fatalf("%s has the folders %v", topic, found)
	}
	return found
}

// copyTo copies folders into another one, in place of what it holds.
func (d *disk) copyTo(dir string, folders []string) {
	d.t.Helper()
	for _, f := range folders {
		to := filepath.Join(dir, filepath.Base(f))
		servicetest.OK(d.t, errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(f))))
	}
}

// loseEnd serves three steps, and puts the folders of the changelog back that were there before. It
// returns a copy of the state folder of then.
func (d *disk) loseEnd(o service.Options) (earlier string) {
	d.t.Helper()
	kept := d.t.TempDir()
	d.while(func() { d.copyTo(kept, d.folders(o.Topics.Changelog)) })
	earlier = d.t.TempDir()
	d.copyTo(earlier, []string{o.StateDir})
	atwork.Serve(d.t, d.World, o, 3)
	d.while(func() {
		found, err := filepath.Glob(filepath.Join(kept, "*"))
		servicetest.OK(d.t, err)
		d.copyTo(filepath.Join(d.dir, "partitions"), found)
	})
	return filepath.Join(earlier, filepath.Base(o.StateDir))
}

// TestChangelogLosesItsEnd puts the changelog of some steps ago back under a stopped service, as a
// restored disk or an unclean election does. The service stops, whatever it still has, and keeps
// its states. What it advises publishes nothing twice, and leaves no release out of an account.
func TestChangelogLosesItsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		folder, earlier, offset bool
		says                    string
	}{
		"the folder has the end":         {folder: true, offset: true, says: "lost at its end"},
		"the group's offset has expired": {folder: true, says: "lost at its end"},
		"the folder is older":            {earlier: true, offset: true, says: "-end-lost)"},
		"the disk is new":                {offset: true, says: "-end-lost)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			o := atwork.Options(d.World, "first")
			atwork.Serve(t, d.World, o, 3)
			earlier := d.loseEnd(o)
			if !test.folder {
				servicetest.OK(t, os.RemoveAll(o.StateDir))
			}
			if test.earlier {
				servicetest.OK(t, os.CopyFS(o.StateDir, os.DirFS(earlier)))
			}
			if !test.offset {
				d.DeleteGroup(t, o.Group)
			}
			out := d.View(t, o.Topics.Sanitized, true)
			published := out.Read(t)
			for _, accept := range []bool{false, true} {
				o.AcceptLost = accept
				if err := fails(t, o, test.says); test.folder && !errors.Is(err, task.ErrLost) {
					t.Errorf("the service ends with %v", err)
				}
			}
			o.AcceptLost = false
			var folders []string
			if test.folder || test.earlier {
				folders = []string{o.StateDir}
			}
			for _, dry := range []bool{true, false} {
				plan, err := account.RebuildChangelog(t.Context(),
					atwork.RepairOptions(o, dry, false), folders)
				servicetest.OK(t, err)
				for _, p := range plan.Partitions {
					if (p.Folder != "") != test.folder || (p.Published > p.Input) == test.folder {
						t.Errorf("rebuilt as %+v", p)
					}
				}
			}
			if got := out.Read(t); got != published {
				t.Errorf("%d sanitized records have become %d", published, got)
			}
			atwork.Serve(t, d.World, o, 2)
			atwork.RequireUndisturbed(t, d.World, "first")
			if report := atwork.Verify(t, o); !report.Verified {
				t.Errorf("afterwards: %+v", report)
			}
			if _, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false,
				false),
				folders); err == nil ||
				!strings.Contains(err.Error(), "nothing to write back") {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}
