package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
)

// right is one operation of an ACL.
type right struct {
	topics.ACL
	operation string
}

// rightsOf lists what "geodither topics acls" prints, one operation after the other.
func rightsOf(c topics.Cluster) (all []right) {
	for _, a := range c.ACLs() {
		for _, operation := range a.Operations {
			all = append(all, right{a, operation})
		}
	}
	return all
}

func (r right) seed(tb testing.TB) kfake.ACL {
	tb.Helper()
	resource, err := kmsg.ParseACLResourceType(r.Resource)
	servicetest.OK(tb, err)
	operation, err := kmsg.ParseACLOperation(r.operation)
	servicetest.OK(tb, err)
	pattern := kmsg.ACLResourcePatternTypeLiteral
	if r.Prefixed {
		pattern = kmsg.ACLResourcePatternTypePrefixed
	}
	return kfake.ACL{
		Resource: resource, Name: r.Name, Pattern: pattern, Operation: operation, Allow: true,
	}
}

// TestDoctorRights: with the rights that are printed nothing is missed, and without any one of them
// the doctor names it.
func TestDoctorRights(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := atwork.Options(w, "doctor")
	o.Topics.Create = false
	const method, admin, all, missing = "PLAIN", "admin", "all", "not-there"
	listed := rightsOf(o.Cluster)
	if len(listed) < 11 {
		t.Fatalf("only %d rights are printed", len(listed))
	}
	users := []kfake.Opt{
		kfake.EnableSASL(), kfake.EnableACLs(), kfake.NumBrokers(1),
		kfake.Superuser(method, admin, "secret"),
	}
	var everything []kfake.ACL
	for _, r := range listed {
		everything = append(everything, r.seed(t))
	}
	unmade := right{topics.ACL{Resource: "Topic", Name: missing}, "Write"} // and not Create
	users = append(users, kfake.User(method, all, "secret", append(everything, unmade.seed(t))...))
	for i := range listed {
		var rest []kfake.ACL
		for j := range listed {
			if j != i {
				rest = append(rest, everything[j])
			}
		}
		users = append(users, kfake.User(method, fmt.Sprint("without-", i), "secret", rest...))
	}
	cluster, err := kfake.NewCluster(users...)
	servicetest.OK(t, err)
	t.Cleanup(cluster.Close)
	as := func(user string) service.Options {
		o := o
		o.Brokers = cluster.ListenAddrs()
		o.Connection, err = kafkaconn.New(kafkaconn.Options{SASL: &kafkaconn.SASL{
			Mechanism: method, Username: user, Password: kafkaconn.NewSecret("secret"),
			AllowPlaintext: true,
		}})
		servicetest.OK(t, err)
		return o
	}
	root := as(admin)
	root.Topics.Create, root.Topics.Partitions = true, 2
	_, err = topics.Make(t.Context(), root.Cluster, topics.CallPatience)
	servicetest.OK(t, err)

	const every = "rights: this client has every right that run needs"
	for _, user := range []string{all, admin} {
		found := service.Examine(t.Context(), as(user), nil, nil)
		if bad := atwork.Details(found, checks.Failure); bad != "" {
			t.Errorf("%s: %s", user, bad)
		}
		if said := atwork.Details(found, checks.OK); !strings.Contains(said, every) {
			t.Errorf("%s: %s", user, said)
		}
	}
	for i, r := range listed {
		found := service.Examine(t.Context(), as(fmt.Sprint("without-", i)), nil, nil)
		requireLines(t, "without "+r.operation+" on "+r.Name, found)
		bad := atwork.Details(found, checks.Failure)
		for _, part := range []string{"this client may not ", r.operation, r.Name, "topics acls"} {
			if !strings.Contains(bad, part) {
				t.Errorf("without %s on %s %s nothing says %q: %s", r.operation, r.Resource,
					r.Name, part, bad)
			}
		}
	}

	// A topic that run has to make, by somebody who may and by somebody who may not.
	for user, want := range map[string]string{
		admin: "", all: "this client may not Create topic " + missing,
	} {
		o := as(user)
		o.Topics.Create, o.Topics.DeadLetters = true, missing
		bad := atwork.Details(service.Examine(t.Context(), o, nil, nil), checks.Failure)
		if (want == "") != (bad == "") || !strings.Contains(bad, want) {
			t.Errorf("a topic to make, as %s: %q", user, bad)
		}
	}
}
