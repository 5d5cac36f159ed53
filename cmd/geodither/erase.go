package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/service"
)

type eraseFlags struct {
	user, users string
	receipt     string
	reset, dry  bool
}

func newErase(std cli.Streams) *cobra.Command {
	var f eraseFlags
	cmd := &cobra.Command{
		Use:   "erase -c FILE {--user ID | --users FILE}",
		Short: "Erase what a service has stored of a person, with a receipt",
		Long: `Erase what a service has stored of a person: the state in the changelog, which every instance's
state folder follows, and in the state folder on this machine. The same holds for the service that
counts, if the config has counts, also alone. First stop whatever produces the person's raw records,
or the next one makes a new state.

The service may be at work. The command takes the person's partition from the running instance for
one transaction, at most fifteen seconds. Where readers may have seen records that are not committed
yet, it leaves a request to the service, and waits. To repeat the command is harmless, and gives the
receipt again.

The account of ε stays, without id or place, under a hash that only the noise key can compute: a
person who comes back goes on with it. Otherwise erasing would start a budget over. --reset-budget
drops it, except for the number of releases and the last step: no noise is used twice.

The receipt is one JSON object a line, for each person and partition. It names nobody, and says
what remains where, in codes that deploy/PRIVACY.md explains.

Exit code 1 means that somebody is not erased yet, or that nothing is stored of somebody. The
message names such people by their place in the list.`,
		Example: `  geodither erase -c geodither.yml --user bus-7 --receipt receipt.json
  geodither erase -c geodither.yml --users - --dry-run < people.txt`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, std) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.user, "user", "", "`ID` of the person in the raw records; other users of "+
		"this machine can see it while the command works")
	flags.StringVar(&f.users, "users", "", "`FILE` with an id on each line, - for standard input")
	flags.StringVar(&f.receipt, "receipt", "",
		"`FILE` for the receipt, for its owner only; - is standard output")
	flags.BoolVar(&f.reset, "reset-budget", false,
		"also drop the account: who comes back starts at Σε = 0")
	flags.BoolVar(&f.dry, "dry-run", false,
		"only say of how many people something is stored; counts are not looked at")
	return cmd
}

func (f *eraseFlags) run(cmd *cobra.Command, std cli.Streams) error {
	if f.dry && f.receipt != "" {
		return cli.Usagef("--dry-run erases nothing, so there is no receipt: leave --receipt out")
	}
	path, err := cli.NeedConfig(cmd)
	if err != nil {
		return err
	}
	list, err := whom(cmd, std.In, f.user, f.users)
	if err != nil {
		return err
	}
	file, err := config.Read(path)
	if err != nil {
		return err
	}
	var result erase.Result
	if file.CountsAlone() {
		if f.reset {
			return cli.Usagef("--reset-budget: counts alone keep no account of ε; leave it out")
		}
		result, err = f.eraseCounted(cmd.Context(), path, file, list, std)
		return f.answer(result, len(list), err, std)
	}
	options, err := loadService(cmd, std)
	if err != nil {
		return err
	}
	counted, err := countedBy(path, file, options)
	if err != nil {
		return err
	}
	result, err = erase.Run(cmd.Context(), erase.Options{
		Settings: options.Settings, Cluster: options.Cluster, StateDir: options.StateDir,
		Counted: counted, Users: list, ResetBudget: f.reset, DryRun: f.dry,
		MaxBatchBytes: options.MaxBatchBytes, Logger: options.Logger,
	})
	return f.answer(result, len(list), err, std)
}

// answer writes the receipt, and says in words what was done. Its error is that of the erasure, or
// of people of whom nothing is stored.
func (f *eraseFlags) answer(result erase.Result, of int, err error, std cli.Streams) error {
	words := std.Out
	switch {
	case f.receipt == "":
	case f.receipt == "-":
		words = std.Err
		err = errors.Join(err, writeReceipts(std.Out, result.Receipts))
	case len(result.Receipts) > 0: // an earlier receipt stays where there is none
		var text bytes.Buffer
		unwritten := errors.Join(writeReceipts(&text, result.Receipts),
			files.WriteSecret(f.receipt, text.Bytes()))
		if err = errors.Join(err, unwritten); unwritten == nil {
			files.Wrote(std.Err, f.receipt, "the receipt")
		}
	}
	people, kept, disk := map[string]bool{}, 0, time.Time{}
	for _, r := range result.Receipts {
		people[r.Subject] = true
		if r.Account.Kept {
			kept++
		}
		if r.GoneBy != nil && r.GoneBy.After(disk) {
			disk = *r.GoneBy
		}
	}
	switch {
	case f.dry && result.Stored > 0:
		fmt.Fprintf(words, "would erase %d of %s\n", result.Stored, peopleIn(of))
	case len(people) > 0:
		fmt.Fprintf(words, "erased %d of %s; %s kept under a hash\n", len(people), peopleIn(of),
			cli.Quantity(int64(kept), "account"))
		if !disk.IsZero() {
			fmt.Fprintf(words, "gone from the disks of the brokers by %s\n",
				disk.UTC().Format(time.RFC3339))
		}
		if f.receipt == "" {
			fmt.Fprintln(words, "repeat the command with --receipt FILE for a receipt")
		}
	}
	return errors.Join(err, unknown(result, of))
}

// peopleIn is a number of people in words.
func peopleIn(n int) string {
	if n == 1 {
		return "1 person"
	}
	return fmt.Sprintf("%d people", n)
}

// countedBy returns the service that counts what a config's service reads; nil where the config
// does not speak of one.
func countedBy(path string, file config.File, o service.Options) (*erase.Counted, error) {
	if !file.CountsUsers() {
		return nil, nil
	}
	windows, _, err := file.CountingClusters()
	if err != nil {
		return nil, config.Error(path, err)
	}
	windows.Connection = o.Connection
	return &erase.Counted{Cluster: windows, StateDir: file.CountsDir()}, nil
}

// eraseCounted erases users where the config has counts alone.
func (f *eraseFlags) eraseCounted(
	ctx context.Context, path string, file config.File, users []string, std cli.Streams,
) (erase.Result, error) {
	n, err := file.Counting()
	if err != nil {
		return erase.Result{}, config.Error(path, err)
	}
	log, err := file.Log.Logger(std.Err)
	if err != nil {
		return erase.Result{}, config.Error(path, err)
	}
	if err := n.Windows.Connection.Refused(ctx, n.Windows.Brokers); err != nil {
		return erase.Result{}, err
	}
	return erase.RunCounted(ctx, erase.Options{
		Settings: engine.Settings{Key: n.Totals.Key},
		Counted: &erase.Counted{
			Cluster: n.Windows.Cluster, StateDir: n.Windows.StateDir,
			Published: n.Totals.Topics.Sanitized, Open: n.Settings.Open(),
		},
		Users: users, DryRun: f.dry, MaxBatchBytes: n.Windows.MaxBatchBytes, Logger: log,
	})
}

// whom reads whom to erase.
func whom(cmd *cobra.Command, in io.Reader, user, users string) ([]string, error) {
	switch one := cmd.Flags().Changed("user"); {
	case one == cmd.Flags().Changed("users"):
		return nil, cli.Usagef("name one person with --user, or a file of people with --users")
	case one && user == "":
		return nil, cli.Usagef("--user must name a person")
	case one:
		return []string{user}, nil
	case users == "-":
	default:
		file, err := os.Open(users)
		if err != nil {
			return nil, fmt.Errorf("--users: %w", err)
		}
		defer file.Close()
		in = file
	}
	var list []string
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if line := strings.TrimSuffix(lines.Text(), "\r"); line != "" {
			list = append(list, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--users: %w", err)
	}
	if len(list) == 0 {
		return nil, errors.New("--users names nobody: write one id on each line, as in the raw " +
			"records")
	}
	return list, nil
}

func writeReceipts(out io.Writer, receipts []erase.Receipt) error {
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	for _, r := range receipts {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	_, err := out.Write(text.Bytes())
	return err
}

// unknown is the error of people of whom nothing is stored, by their places in the list.
func unknown(result erase.Result, of int) error {
	const most = 20
	var places []string
	for _, at := range result.Unknown {
		places = append(places, fmt.Sprint(at+1))
	}
	if len(places) > most {
		places = append(places[:most], "…")
	}
	const hint = "no fix was accepted, or the id is written otherwise in the raw records"
	switch {
	case len(places) == 0:
		return nil
	case of == 1:
		return fmt.Errorf("nothing is stored of this person: %s", hint)
	}
	return fmt.Errorf("nothing is stored of %d of %d people (in the list: %s): %s",
		len(result.Unknown), of, strings.Join(places, ", "), hint)
}
