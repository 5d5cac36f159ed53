//go:build kafka

package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// TestACLs: a login that has the ACLs which "geodither topics acls" prints, and no others, can do
// what they are printed for, and without any one of them "geodither doctor" fails and names it.
func TestACLs(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	w := s.world(2, 6)
	o := w.options("acls")
	_, err := topics.Make(t.Context(), o.Cluster, patience) // by somebody who may
	w.ok(err)
	o.Topics.Create = false
	config := s.config(w, o)

	printed, code := s.geodither("topics", "acls", "-c", config, "--principal", login)
	if code != 0 {
		t.Fatalf("topics acls: %s", printed)
	}
	s.kafkaACLs(printed)
	for _, a := range o.ACLs() {
		s.granted(login, a)
	}
	green := func(when string) {
		t.Helper()
		if out, code := s.geodither("doctor", "-c", config); code != 0 ||
			!strings.Contains(out, "this client has every right that run needs") {
			t.Errorf("doctor, %s, exits with %d:\n%s", when, code, out)
		}
	}
	green("before the first start")

	// What an instance leaves that is killed in its very first transaction: the next one looks
	// whether it was committed.
	killed := s.transactional(s.client, "killed", producer.Options{})
	s.produce(killed, o.Topics.DeadLetters, 0, "aborted")
	s.ok(killed.Abort(t.Context()))
	service := w.start(config, "acls")
	w.feed(20)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	green("beside an instance at work") // which must not notice
	w.feed(20)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	service.terminate()
	if service.log.has("fenced") {
		t.Errorf("the doctor has disturbed the instance:\n%s", service.log)
	}
	w.exactlyOnce(o)
	if out, code := s.geodither("state", "verify", "-c", config); code != 0 {
		t.Errorf("state verify exits with %d:\n%s", code, out)
	}
	// A broker refuses this login a topic that does not exist as one that it may not see.
	if out, code := s.geodither("consume", "-c", config, "--topic",
		o.Topics.Sanitized+"s"); code == 0 || !strings.Contains(out, "a misspelling?") {
		t.Errorf("consume of a misspelt topic exits with %d:\n%s", code, out)
	}
	if out, code := s.geodither("erase", "-c", config, "--user", "vehicle-001", "--receipt", "-"); code != 0 ||
		!strings.Contains(out, "changelog_tombstone_offset") {
		t.Errorf("erase exits with %d:\n%s", code, out)
	}
}

// TestACLsTakenAway removes each right of a service, one at a time.
func TestACLsTakenAway(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	w := s.world(2, 6)
	w.createRaw()
	o := w.options("acls")
	w.feed(5)
	w.answer(o)
	o.Topics.Create = false
	config := s.config(w, o)
	s.grant(login, o.ACLs())
	for _, a := range o.ACLs() {
		for _, operation := range a.Operations {
			s.revoke(login, a, operation)
			out, code := s.geodither("doctor", "-c", config)
			for _, part := range []string{"this client may not", operation, a.Name, "topics acls"} {
				if code == 0 || !strings.Contains(out, part) {
					t.Errorf("without %s on %s %s doctor exits with %d and does not say %q:\n%s",
						operation, a.Resource, a.Name, code, part, out)
				}
			}
			s.grant(login, []topics.ACL{a})
		}
	}
}

// TestRightsDisturbNobody asks for the rights to a transactional id that has a transaction open.
// The doctor asks for an id that nobody uses, and nothing would happen if somebody did.
func TestRightsDisturbNobody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic("rights", 1, nil)
	p := h.transactional(h.client, "rights", producer.Options{})
	for _, value := range []string{"a", "b"} {
		h.produce(p, topic, 0, value)
		rights, err := admin.TransactionalRights(t.Context(), h.client, wire.Options{},
			h.prefix+"rights")
		h.ok(err)
		if !rights.Known() || rights.Denied("Write") || rights.Denied("Describe") {
			t.Errorf("rights are %+v", rights)
		}
	}
	h.commit(p)
	h.expect(topic, 0, "a", "b")
}

// config is of a service that logs in.
func (s *secured) config(w *world, o service.Options) (path string) {
	s.Helper()
	o.Brokers = s.sasl
	return w.config(o, "acls", fmt.Sprintf("kafka: {tls: {ca_file: %s}, sasl: "+
		"{mechanism: %s, username: geodither, password_file: %s}}",
		s.path("ca.crt"), kafkaconn.ScramSHA512, s.path("password")))
}

// geodither runs the command, and returns what it prints and its exit code.
func (h *harness) geodither(args ...string) (out string, code int) {
	h.Helper()
	binary, err := built()
	h.ok(err)
	cmd := exec.CommandContext(h.Context(), binary, args...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// kafkaACLs runs what "geodither topics acls" prints, by Kafka's own kafka-acls.sh, with the rights
// of the open listener.
func (s *secured) kafkaACLs(printed string) {
	s.Helper()
	dir := s.TempDir()
	s.ok(os.WriteFile(filepath.Join(dir, "kafka-acls.sh"), fmt.Appendf(nil, `#!/bin/sh
[ "$1" = --bootstrap-server ] || exit 1
shift 2
exec java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$(cat '%s')" \
  org.apache.kafka.tools.AclCommand --bootstrap-server %s "$@"
`, filepath.Join(s.nodes.dir, "connect.classpath"), s.brokers[0]), 0o700))
	cmd := exec.CommandContext(s.Context(), "sh", "-e")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.Stdin = strings.NewReader(printed)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s\n%v:\n%s", printed, err, out)
	}
}

// login is the principal of kafka.sh's only user, and certificate that of its client's certificate.
const login, certificate = "User:geodither", "User:CN=client"

// grant creates ACLs for a principal, who has no others on their resources, and waits until every
// broker goes by them.
func (h *harness) grant(principal string, acls []topics.ACL) {
	h.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, a := range acls {
		for _, operation := range a.Operations {
			resource, pattern, op := h.kinds(a, operation)
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.ResourcePatternType = resource, a.Name, pattern
			c.Principal, c.Host = principal, "*"
			c.Operation, c.PermissionType = op, kmsg.ACLPermissionTypeAllow
			req.Creations = append(req.Creations, c)
		}
	}
	answer, err := req.RequestWith(h.Context(), h.admin)
	h.ok(err)
	for _, r := range answer.Results {
		h.ok(kerr.ErrorForCode(r.ErrorCode))
	}
	for _, a := range acls {
		h.granted(principal, a)
	}
}

// revoke removes one operation of an ACL, and waits until every broker goes by that.
func (h *harness) revoke(principal string, a topics.ACL, operation string) {
	h.Helper()
	resource, pattern, op := h.kinds(a, operation)
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.ResourcePatternType = resource, pattern
	filter.ResourceName, filter.Principal = kmsg.StringPtr(a.Name), kmsg.StringPtr(principal)
	filter.Operation, filter.PermissionType = op, kmsg.ACLPermissionTypeAllow
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Filters = append(req.Filters, filter)
	answer, err := req.RequestWith(h.Context(), h.admin)
	h.ok(err)
	for _, r := range answer.Results {
		h.ok(kerr.ErrorForCode(r.ErrorCode))
		if len(r.MatchingACLs) != 1 {
			h.Fatalf("%s of %s %s: removed %d ACLs, want 1", operation, a.Resource, a.Name,
				len(r.MatchingACLs))
		}
	}
	a.Operations = slices.DeleteFunc(slices.Clone(a.Operations),
		func(o string) bool { return o == operation })
	h.granted(principal, a)
}

// granted waits until every broker has exactly the operations of an ACL for a principal.
func (h *harness) granted(principal string, a topics.ACL) {
	h.Helper()
	resource, pattern, _ := h.kinds(a, "Any")
	var want []kmsg.ACLOperation
	for _, operation := range a.Operations {
		_, _, op := h.kinds(a, operation)
		want = append(want, op)
	}
	slices.Sort(want)
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(h.Context(), h.admin)
	h.ok(err)
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = resource, pattern
	req.ResourceName, req.Principal = kmsg.StringPtr(a.Name), kmsg.StringPtr(principal)
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAllow
	for _, broker := range meta.Brokers {
		h.eventually(fmt.Sprintf("broker %d has the ACLs of %s", broker.NodeID, a.Name),
			func() bool {
				answer, err := req.RequestWith(h.Context(), h.admin.Broker(int(broker.NodeID)))
				h.ok(err)
				h.ok(kerr.ErrorForCode(answer.ErrorCode))
				have := []kmsg.ACLOperation(nil)
				for _, r := range answer.Resources {
					for _, found := range r.ACLs {
						have = append(have, found.Operation)
					}
				}
				slices.Sort(have)
				return slices.Equal(have, want)
			})
	}
}

// kinds are an ACL's parts as the protocol has them.
func (h *harness) kinds(a topics.ACL, operation string) (
	kmsg.ACLResourceType, kmsg.ACLResourcePatternType, kmsg.ACLOperation,
) {
	h.Helper()
	resource, err := kmsg.ParseACLResourceType(a.Resource)
	h.ok(err)
	op, err := kmsg.ParseACLOperation(operation)
	h.ok(err)
	if a.Prefixed {
		return resource, kmsg.ACLResourcePatternTypePrefixed, op
	}
	return resource, kmsg.ACLResourcePatternTypeLiteral, op
}
