package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
)

func newTopics(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topics",
		Short:   "Make the topics of a service, and say which rights it needs",
		Example: "  geodither topics acls -c geodither.yml --principal User:geodither",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTopicsACLs(std), newTopicsCreate(std))
	return cmd
}

func newTopicsACLs(std cli.Streams) *cobra.Command {
	var path, principal, cluster string
	acls := &cobra.Command{
		Use:   "acls -c FILE --principal User:NAME",
		Short: "Print the rights that the service needs, and no others",
		Long: `Print the rights that "geodither run" needs with a config, and no others: as commands of
Kafka's kafka-acls.sh, or with --strimzi as a KafkaUser of that operator. With topics.create in the
config they include making topics, and with smooth or topics.smoothed there those of "geodither
smooth". The command connects to nothing.

These rights are enough for "doctor", "state verify" and "erase" too. Other commands need others:
"consume" and "aggregate" read the sanitized topic, "produce" writes the raw one, and "replay"
writes to topics of its own.`,
		Example: `  geodither topics acls -c geodither.yml --principal User:geodither > acls.sh
  geodither topics acls -c geodither.yml --principal User:geodither --strimzi fleet`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file, err := config.Read(path)
			if err != nil {
				return err
			}
			c := file.Cluster()
			if err := c.Validate(); err != nil {
				return config.Error(path, err)
			}
			user, ok := strings.CutPrefix(principal, "User:")
			if !ok || user == "" {
				return cli.Usagef("--principal %q: write User: and the name of the login, such as "+
					"User:geodither", principal)
			}
			rights := c.ACLs()
			if file.Smooths() {
				second, err := file.SmoothingCluster()
				if err != nil {
					return config.Error(path, err)
				}
				rights = append(rights, second.ACLs()...)
			}
			text := topics.KafkaACLs(rights, c.Brokers, principal)
			if cluster != "" {
				text = topics.StrimziACLs(rights, cluster, user)
			}
			_, err = io.WriteString(std.Out, text)
			return err
		},
	}
	flags := acls.Flags()
	flags.StringVarP(&path, "config", "c", "", "config `FILE` (YAML)")
	flags.StringVar(&principal, "principal", "",
		"who gets the rights, as Kafka writes it: `User:NAME`")
	flags.StringVar(&cluster, "strimzi", "",
		"print a KafkaUser of the Strimzi operator, for its Kafka of this `NAME`")
	cli.Required(acls, "config")
	cli.Required(acls, "principal")
	return acls
}

func newTopicsCreate(std cli.Streams) *cobra.Command {
	var path string
	create := &cobra.Command{
		Use:   "create -c FILE",
		Short: "Make those of the service's topics that are missing",
		Long: `Make those of the four topics of a config that are missing, as the service makes them with
topics.create: co-partitioned, the changelog compacted, the others with the raw topic's retention.
So the service itself needs no right to make topics. A missing raw topic is made only if
topics.partitions says how large. A topic that is there is left alone, and is an error if the
service could not use it. With the section smooth, or topics.smoothed, the topics of the service
"geodither smooth" are made too.`,
		Example: "  geodither topics create -c geodither.yml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := config.Read(path)
			if err != nil {
				return err
			}
			c := file.Cluster()
			var second topics.Cluster
			err = c.Validate()
			if err == nil && file.Smooths() {
				second, err = file.SmoothingCluster()
			}
			if err == nil {
				c.Connection, err = file.Connection()
			}
			if err != nil {
				return config.Error(path, err)
			}
			if err := c.Connection.Refused(cmd.Context(), c.Brokers); err != nil {
				return err
			}
			sizes, err := topics.Make(cmd.Context(), c, service.CallPatience)
			if err == nil && file.Smooths() {
				var more []topics.Size
				second.Connection = c.Connection
				more, err = topics.Make(cmd.Context(), second, service.CallPatience)
				sizes = append(sizes, more[min(1, len(more)):]...) // its input is listed
			}
			for _, size := range sizes {
				if err == nil {
					_, err = fmt.Fprintf(std.Out, "%s: %d partitions\n", size.Topic,
						size.Partitions)
				}
			}
			return err
		},
	}
	create.Flags().StringVarP(&path, "config", "c", "", "config `FILE` (YAML)")
	cli.Required(create, "config")
	return create
}
