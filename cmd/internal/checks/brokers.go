package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/registry"
)

// brokerChecks are those of the registry and the brokers.
func brokerChecks() []Check {
	return []Check{
		{"registry", "the registry", each, needsFolder, (*examination).schemas},
		{"broker", "the connection", each, needsFolder, (*examination).brokers},
		{"transactions", "the brokers", sanitizes, needsBrokers, (*examination).transactions},
	}
}

// schemas looks whether the registry has the schemas of what is published.
func (d *examination) schemas(ctx context.Context) {
	if d.o.SanitizedEncoding != schemas.AvroRegistry {
		return
	}
	for _, s := range Schemas(d.o.Cluster) {
		found, err := d.o.Registry.Find(ctx, s.Subject, s.Text)
		switch {
		case err == nil:
			d.add(OK, "subject %s has the schema, id %d, version %d", s.Subject,
				found.ID, found.Version)
		case errors.Is(err, registry.ErrMissing):
			d.unregistered(ctx, s)
		default:
			d.add(Failure, "%w", err)
		}
	}
}

// unregistered asks whether the registry would take a schema that it does not have.
func (d *examination) unregistered(ctx context.Context, s Schema) {
	ok, words, err := d.o.Registry.Compatible(ctx, s.Subject, s.Text)
	switch {
	case err != nil && !errors.Is(err, registry.ErrMissing):
		d.add(Failure, "%w", err)
	case err == nil && !ok:
		d.add(Failure, "subject %s would refuse the schema, because it is not "+
			"compatible with its versions: write to another topic (%s)", s.Subject,
			strings.Join(words, "; "))
	default:
		d.add(Warning, "subject %s does not have the schema: %s adds it if it may; "+
			"else use \"geodither schemas register\"", s.Subject, d.command)
	}
}

// brokers asks each by itself, and looks whether one answers.
func (d *examination) brokers(ctx context.Context) {
	if d.job != sanitizes { // then each was asked
		d.answers = admin.Ping(ctx, d.client, d.call) == nil
		return
	}
	level, found := Failure, false
	errs := make([]error, len(d.o.Brokers))
	var known []string // addresses that the cluster tells
	for i, broker := range d.o.Brokers {
		var told []string
		if told, errs[i] = d.ping(ctx, broker); errs[i] == nil {
			found, level = true, Warning // for those that do not
			known = told
		}
	}
	for i, broker := range d.o.Brokers {
		if errs[i] == nil {
			d.add(OK, "%s answers", broker)
		} else if wire.IsLinkError(errs[i]) {
			d.add(level, "%s cannot be used: %v", broker, errs[i])
		} else {
			d.add(level, "%s", unreached(broker, errs[i]))
		}
	}
	d.answers = found && d.advertised(ctx, known)
}

// advertised asks the brokers at the addresses that the cluster tells, to which clients go for all
// that matters. It reports whether one answers there.
func (d *examination) advertised(ctx context.Context, addresses []string) bool {
	away := 0
	for _, broker := range addresses {
		if slices.Contains(d.o.Brokers, broker) {
			continue // it was asked
		}
		if _, err := d.ping(ctx, broker); wire.IsLinkError(err) {
			d.add(Failure, "%s, which the cluster advertises, cannot be used: %v", broker,
				err)
			away++
		} else if err != nil {
			d.add(Failure, "%s", wire.Advertised(broker))
			away++
		}
	}
	return away == 0 || away < len(addresses)
}

// ping asks a broker by itself, and returns the addresses that the cluster advertises.
func (d *examination) ping(ctx context.Context, broker string) (advertised []string, err error) {
	// Long enough for two TLS handshakes that fail: their errors say more than that time is over.
	const patience = topics.CallPatience + 2*time.Second
	call, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return admin.Brokers(call, d.o.Connection.Client([]string{broker}), wire.Options{
		RetryTimeout: patience, RequestTimeout: patience,
	})
}

// unreached says why a broker does not answer, and what to do. It leaves out the hint that the
// error may have, which asks the same.
func unreached(broker string, err error) string {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		err = e.Err
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("%s: its host name was not found: correct brokers, or the name service "+
			"of this machine (%v)", broker, err)
	}
	return fmt.Sprintf("%s does not answer: is Kafka running there? (%v)", broker, err)
}

// maxTimeout is a setting of brokers, and usualMaxTimeout Kafka's own default of it.
const (
	maxTimeout      = "transaction.max.timeout.ms"
	usualMaxTimeout = 15 * time.Minute
)

// transactions compares the timeout of transactions with what the brokers allow.
func (d *examination) transactions(ctx context.Context) {
	timeout := d.o.TransactionTimeout
	limits, err := admin.BrokerConfigs(ctx, d.client, d.call, maxTimeout)
	ms, broken := strconv.ParseInt(limits[maxTimeout], 10, 64)
	limit, known := time.Duration(ms)*time.Millisecond, err == nil && broken == nil
	unknown := "the brokers do not tell it"
	if errors.Is(err, kafka.ClusterAuthorizationFailed) {
		unknown = "this client may not DescribeConfigs the cluster, which run does not need"
	}
	switch {
	case known && timeout > limit:
		d.add(Failure, "transaction.timeout is %v, and the brokers allow %v (%s): run "+
			"would be refused. Set it to that or less", timeout, limit, maxTimeout)
	case known:
		d.add(OK, "transaction.timeout is %v; the brokers allow %v", timeout, limit)
	case timeout > usualMaxTimeout:
		d.add(Warning, "transaction.timeout is %v, and brokers allow %v unless %s says "+
			"otherwise, which could not be checked: %s", timeout, usualMaxTimeout, maxTimeout,
			unknown)
	default:
		d.add(Unchecked, "transaction.timeout is %v; %s could not be checked: %s", timeout,
			maxTimeout, unknown)
	}
}
