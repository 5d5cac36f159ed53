package service

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
)

// named adds to an error about two fingerprints which settings differ.
func (o Options) named(err error) error {
	var before *task.SettingsError
	var beside *group.SettingsError
	switch {
	case errors.As(err, &before):
		return fmt.Errorf("%w. What differs: %s", err, o.Differences(before.Found))
	case errors.As(err, &beside):
		return fmt.Errorf("%w. What differs: %s", err, o.DifferencesInGroup(beside.Found))
	}
	return err
}
