package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// source opens the files or the topic that the flags name.
func (f *trainFlags) source(cmd *cobra.Command, args []string, std cli.Streams) (gather.Source, error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if f.topic.topic == "" {
		for _, name := range []string{"brokers", "encoding", "from", "to", "max-ahead"} {
			if given(name) {
				return nil, cli.Usagef("--%s belongs to --topic, which is missing", name)
			}
		}
		if len(f.input.Paths)+len(args) == 0 {
			return nil, cli.Usagef("name the traces to read with --in (- is standard input), or a topic with --topic")
		}
		reader, err := f.input.Open(cmd.Context(), args, std.In)
		return gather.Files{Reader: reader}, err
	}
	if len(f.input.Paths)+len(args) > 0 {
		return nil, cli.Usagef("--topic and files exclude each other: train on one or the other")
	}
	if given("format") || given("columns") {
		return nil, cli.Usagef("--format and --columns are for files; a raw topic has --encoding")
	}
	return f.topic.open(cmd.Context(), f.input.Strict)
}

// origin names the source for the model's provenance.
func (f *trainFlags) origin() string {
	if f.topic.topic != "" {
		return "topic " + f.topic.topic
	}
	return strings.TrimSpace("traces " + f.input.Format)
}

// warn says what was left out, and what makes a poor model.
func warn(in *gather.Gathered, report mobility.Report, trainer *train.Trainer, model *mobility.Model, log io.Writer) {
	if in.Skips.Total > 0 {
		fmt.Fprintln(log, &in.Skips)
	}
	for _, warning := range in.Warnings(report, trainer, model) {
		fmt.Fprintln(log, "warning: "+warning)
	}
}
