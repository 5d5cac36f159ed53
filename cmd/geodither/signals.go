package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// oneWish is how long after the first signal another one is taken for the same wish. Some senders
// send two at once: coreutils' timeout signals the command and then its whole group, a terminal
// and a supervisor may both pass one Ctrl-C on.
const oneWish = 2 * time.Second

// untilSignal returns a context that SIGTERM or Ctrl-C ends: the command is asked to finish well.
// Further signals are ignored for oneWish. Whoever sends one after that cannot wait, and the
// process ends at once, as the system does it.
func untilSignal(parent context.Context) context.Context {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(oneWish, stop) })
	return ctx
}
