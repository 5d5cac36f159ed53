package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/devbroker"
)

func newBroker(std cli.Streams) *cobra.Command {
	var o devbroker.Options
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run the embedded broker, to try geodither without a Kafka",
		Long: `Run the embedded broker until Ctrl-C. It is made for demos and tests: one node, no
replication. With --dir its topics survive a restart; without, they are in memory, a service's
changelog with every user's account of ε too.`,
		Example: "  geodither broker --port 9092 --dir broker-data",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Port < 0 || o.Port > 65535 {
				return cli.Usagef("--port %d: choose 1 to 65535, or 0", o.Port)
			}
			broker, err := devbroker.Start(o)
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("port %d is in use: choose another --port, also for brokers of "+
					"the config", o.Port)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(std.Out, "listening on %s\n", broker.Addr())
			if o.Dir == "" {
				fmt.Fprintln(std.Err, "topics are gone when the broker ends: --dir FOLDER "+
					"keeps them")
			}
			<-cmd.Context().Done()
			return broker.Close()
		},
	}
	cmd.Flags().IntVar(&o.Port, "port", 9092, "port on 127.0.0.1; 0: any free one")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "keep topics in this `FOLDER`; empty: in memory")
	return cmd
}
