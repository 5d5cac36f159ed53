package config

import (
	"bytes"
	"cmp"
	"net/url"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/mechanism"
)

// Show returns a config as the service understands it, in YAML: with the variables of the
// environment and all defaults in it. What the file does not say is marked as a default. Secrets
// are redacted. Relative paths are those of the file's folder.
func Show(path string) (string, error) {
	file, err := Read(path)
	if err != nil {
		return "", err
	}
	if file.Kafka, err = file.Kafka.ready(); err != nil {
		return "", Error(path, err)
	}
	if err := file.Registry.unset; err != nil {
		return "", Error(path, err)
	}
	for _, address := range []*string{&file.Registry.URL, &file.Kafka.SASL.OAuth.TokenEndpointURL} {
		*address = withoutSecrets(*address)
	}
	file.fill(file.withoutFiles().WithDefaults())
	var node yaml.Node
	if err := node.Encode(file); err != nil {
		return "", err
	}
	showKeys(&node, "", file.written)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return "", err
	}
	return out.String(), encoder.Close()
}

// withoutSecrets leaves out of an address what may be a login, which is an error where it is used.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.RawQuery != "" {
		return "[redacted]"
	}
	return address
}

// fill puts the defaults into a config: those of the service's options, and those that the release
// settings have in words.
func (c *File) fill(o service.Options) {
	c.Topics.Changelog, c.Topics.DeadLetters = o.Topics.Changelog, o.Topics.DeadLetters
	c.Topics.Partitioner = string(o.Partitioner)
	if c.Input.mapping().IsZero() { // else it has no meaning
		c.Encoding.Raw = o.RawEncoding
	}
	c.Encoding.Sanitized = o.SanitizedEncoding
	r := &c.Release
	r.Between = cmp.Or(r.Between, mechanism.BetweenPredict)
	c.Publish.Timestamp, c.Publish.User = o.Publish.Timestamp, o.Publish.User
	release := !o.Publish.OmitRelease
	c.Publish.Release = &release
	c.Publish.Estimate = cmp.Or(c.Publish.Estimate, mechanism.EstimateMean)
	c.Input.Outside = o.Input.Outside
	c.Transaction.MaxRecords, c.Transaction.MaxInterval = o.MaxRecords, o.MaxInterval
	c.Transaction.Timeout = o.TransactionTimeout
	c.SessionTimeout, c.MaxAhead = o.SessionTimeout, Ahead(o.MaxAhead)
	if c.CountsUsers() {
		windows, totals := o.Counting(c.Counts.Group, c.Topics.Counts)
		c.Counts = c.Counts.withDefaults()
		c.Counts.Group, c.Topics.Counts = windows.Group, totals.Topics.Sanitized
	}
	c.Log.Level, c.Log.Format = cmp.Or(c.Log.Level, "info"), cmp.Or(c.Log.Format, "text")
}

// MarshalYAML writes a budget as it is read.
func (b Budget) MarshalYAML() (any, error) {
	if b.Epsilon == 0 && b.Lifetime == 0 {
		return noBudget, nil
	}
	type plain Budget // without this method
	return plain(b), nil
}

// noUnits are the units at the end of a duration, as Go writes it, that say nothing.
var noUnits = regexp.MustCompile(`^(\d+h)0m0s$|^((?:\d+h)?\d+m)0s$`)

// showKeys prepares a mapping for readers. It removes what has no value and no default, and
// sections with nothing in them. below is the mapping's own key with those above it, each with a
// point behind it, and written has the keys of the file.
func showKeys(node *yaml.Node, below string, written map[string]bool) {
	var kept []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		path := below + name.Value
		if value.Kind == yaml.MappingNode {
			showKeys(value, path+".", written)
		}
		if !written[path] {
			if isEmpty(value) {
				continue
			}
			if value.Kind == yaml.ScalarNode {
				value.LineComment = "default"
			}
		}
		value.Value = noUnits.ReplaceAllString(value.Value, "$1$2")
		kept = append(kept, name, value)
	}
	node.Content = kept
}

// isEmpty reports whether a value that the file does not have says nothing. A switch that is off
// says that it is off, but a section of nothing else is not in use.
func isEmpty(value *yaml.Node) bool {
	switch value.Kind {
	case yaml.SequenceNode:
		return len(value.Content) == 0
	case yaml.MappingNode:
		for i := 1; i < len(value.Content); i += 2 {
			if value.Content[i].Value != "false" {
				return false
			}
		}
		return true
	case yaml.ScalarNode:
		return value.Tag == "!!null" || value.Value == "" || value.Value == "0" ||
			value.Value == "0s"
	default:
		return false
	}
}
