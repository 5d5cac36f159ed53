package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
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
	var principal, cluster string
	acls := &cobra.Command{
		Use:   "acls -c FILE --principal User:NAME",
		Short: "Print the rights that the service needs, and no others",
		Long: `Print the rights that "geodither run" needs with a config, and no others: as commands of Kafka's
kafka-acls.sh, or with --strimzi as a KafkaUser of that operator. The section counts of the
config adds those of "geodither counts serve". "doctor", "state verify" and "erase" need no more.`,
		Example: `  geodither topics acls -c geodither.yml --principal User:geodither > acls.sh
  geodither topics acls -c geodither.yml --principal User:geodither --strimzi fleet`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := cli.NeedConfig(cmd)
			if err != nil {
				return err
			}
			file, err := config.Read(path)
			if err != nil {
				return err
			}
			all, err := clustersOf(file)
			if err != nil {
				return config.Error(path, err)
			}
			user, ok := strings.CutPrefix(principal, "User:")
			if !ok || user == "" {
				return cli.Usagef("--principal %q: write User:NAME of the login", principal)
			}
			var rights []topics.ACL
			for _, c := range all {
				rights = append(rights, c.ACLs()...)
			}
			text := topics.KafkaACLs(rights, file.Brokers, principal)
			if cluster != "" {
				text = topics.StrimziACLs(rights, cluster, user)
			}
			_, err = io.WriteString(std.Out, text)
			return err
		},
	}
	flags := acls.Flags()
	flags.StringVar(&principal, "principal", "",
		"who gets the rights, as Kafka writes it: `User:NAME`")
	flags.StringVar(&cluster, "strimzi", "",
		"print a KafkaUser of the Strimzi operator, for its Kafka of this `NAME`")
	cli.Required(acls, "principal")
	return acls
}

func newTopicsCreate(std cli.Streams) *cobra.Command {
	var asJSON bool
	create := &cobra.Command{
		Use:   "create -c FILE",
		Short: "Make those of the service's topics that are missing",
		Long: `Make those topics of a config that are missing, as the service makes them with topics.create:
co-partitioned, the changelog compacted, the others with the raw topic's retention. A missing raw
topic is made only if topics.partitions says how large. A topic that is there is left alone, and is
an error if the service could not use it.`,
		Example: "  geodither topics create -c geodither.yml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := cli.NeedConfig(cmd)
			if err != nil {
				return err
			}
			file, err := config.Read(path)
			if err != nil {
				return err
			}
			all, err := clustersOf(file)
			if err != nil {
				return config.Error(path, err)
			}
			connection, err := file.Connection()
			if err != nil {
				return config.Error(path, err)
			}
			if err := connection.Refused(cmd.Context(), file.Brokers); err != nil {
				return err
			}
			sizes, err := makeTopics(cmd.Context(), all, connection)
			return show(std.Out, sizes, err, asJSON, printSizes)
		},
	}
	create.Flags().BoolVar(&asJSON, "json", false, "print one JSON list")
	return create
}

func printSizes(out io.Writer, sizes []topics.Size) (err error) {
	for _, size := range sizes {
		if err == nil {
			_, err = fmt.Fprintf(out, "%s: %d partitions\n", size.Topic, size.Partitions)
		}
	}
	return err
}

// clustersOf returns the places of a config's services, each after that whose output it reads.
func clustersOf(file config.File) (all []topics.Cluster, err error) {
	first := file.Cluster()
	if !file.CountsAlone() {
		all, err = append(all, first), first.Validate()
	}
	if err == nil && file.CountsUsers() {
		windows, totals, wrong := file.CountingClusters()
		all, err = append(all, windows, totals), wrong
	}
	return all, err
}

// makeTopics makes what is missing, and returns the sizes of all topics, each once.
func makeTopics(
	ctx context.Context, all []topics.Cluster, by *kafkaconn.Connection,
) (sizes []topics.Size, err error) {
	for i, c := range all {
		c.Connection = by
		more, err := topics.Make(ctx, c, topics.CallPatience)
		if i > 0 { // its input is listed
			more = more[min(1, len(more)):]
		}
		if sizes = append(sizes, more...); err != nil {
			return sizes, err
		}
	}
	return sizes, nil
}
