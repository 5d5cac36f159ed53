package pipeline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// named adds to an error about two fingerprints which settings differ.
func (o Options) named(err error) error {
	var before *task.SettingsError
	var beside *consumer.SettingsError
	switch {
	case errors.As(err, &before):
		return fmt.Errorf("%w. What differs: %s", err, o.DifferentSettings(before.Found))
	case errors.As(err, &beside):
		return fmt.Errorf("%w. What differs: %s", err, o.differentInGroup(beside.Found))
	}
	return err
}

// groupSettings is what an instance says to its group: the settings, and behind them the
// first day of the key. An advanced key is no other setting to whoever goes on under it,
// but side by side with the older key whether a fix of a day between is released would
// depend on which instance has the partition.
func (o Options) groupSettings() []byte {
	settings := o.Settings()
	if settings == nil {
		return nil
	}
	return binary.BigEndian.AppendUint32(settings, uint32(o.Key.FirstDay()))
}

// differentInGroup is DifferentSettings for what an instance has said to the group. It has
// no digests to compare where the other instance is of another version.
func (o Options) differentInGroup(other []byte) string {
	own := o.groupSettings()
	if len(other) != len(own) || bytes.Equal(other, own) {
		return o.DifferentSettings(other)
	}
	n := len(own) - dayBytes
	text := o.DifferentSettings(other[:n])
	if bytes.Equal(own[n:], other[n:]) {
		return text
	}
	day := "key_file: it has noise from another day on"
	if text == "" {
		return day
	}
	return text + ", " + day
}

// dayBytes is the length of a day behind the settings.
const dayBytes = 4
