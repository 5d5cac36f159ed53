package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options say where to answer, and when an instance counts as stalled. The zero value answers
// nowhere.
type Options struct {
	Listen string        // host:port, or :port for all addresses; empty: nowhere
	Stall  time.Duration // how long /live allows between two steps
	Pprof  string        // host:port of a loopback address, for Go's profiles; empty: nowhere
}

// Stall returns the time between two steps that /live allows, for a session timeout of the group.
// No request takes as long, also where brokers are away: an idle partition waits 5 s for an answer,
// a member for its group as long as the session.
func Stall(session time.Duration) time.Duration { return max(3*session, time.Minute) }

// Validate reports everything that is wrong, in one error, by the keys of the config.
func (o Options) Validate() error {
	var errs []error
	for _, at := range []struct{ key, address string }{{"listen", o.Listen}, {"pprof", o.Pprof}} {
		if at.address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(at.address)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: write HOST:PORT or :PORT: %w", at.key, err))
		} else if at.key == "pprof" {
			errs = append(errs, loopback(at.address))
		}
	}
	return errors.Join(errs...)
}

// loopback refuses an address that other machines can reach: a profile holds the memory of a
// process that has raw positions in it.
func loopback(address string) error {
	host, _, _ := net.SplitHostPort(address) // Validate has tried
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("pprof: %s can be reached from other machines: write localhost:PORT",
			address)
	}
	return nil
}

// Server answers /live, /ready, /metrics and /status.
type Server struct {
	Addr  string // where it answers, empty if nowhere
	Pprof string

	servers []*http.Server
	serving sync.WaitGroup
}

// Open begins to answer. It answers until Close.
func Open(o Options, s Source, log *slog.Logger) (*Server, error) {
	server := new(Server)
	var err error
	if o.Listen != "" {
		server.Addr, err = server.open("listen", o.Listen, handler(o, s), log)
	}
	if o.Pprof != "" && err == nil {
		server.Pprof, err = server.open("pprof", o.Pprof, profiles(), log)
	}
	if err != nil {
		server.Close()
		return nil, err
	}
	return server, nil
}

// open listens at one address.
func (s *Server) open(key, address string, h http.Handler, log *slog.Logger) (string, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return "", fmt.Errorf("%s: %s is in use by another process (%w)", key, address, err)
	}
	if err != nil {
		return "", fmt.Errorf("%s: cannot listen at %s (%w)", key, address, err)
	}
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	s.servers = append(s.servers, server)
	s.serving.Go(func() { _ = server.Serve(listener) }) // until it is closed
	log.Info("listening for HTTP", "address", listener.Addr().String(), "for", "http."+key)
	return listener.Addr().String(), nil
}

// Close ends what is being answered, within a moment.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
	s.serving.Wait()
}

// handler answers all paths but profiles.
func handler(o Options, s Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		stalled := s.stalled(o.Stall)
		answer(w, len(stalled) == 0, Liveness{Live: len(stalled) == 0, Stalled: stalled})
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		r := s.readiness()
		answer(w, r.Ready, r)
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, true, s.Status())
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(s), promhttp.HandlerOpts{}))
	return mux
}

// stalled is Board.stalled of all stages. The names of those of the second begin with its own.
func (s Source) stalled(limit time.Duration) map[string]float64 {
	found := s.Board.stalled(limit)
	for _, stage := range s.stages()[1:] {
		for name, seconds := range stage.Board.stalled(limit) {
			found[stage.Stage+" "+name] = seconds
		}
	}
	return found
}

// readiness is that of all stages: it is of the first one that is not ready, with the topics that
// any cannot write. Partitions are those of the first stage.
func (s Source) readiness() Readiness {
	r := s.Board.status().Readiness
	for _, stage := range s.stages()[1:] {
		if other := stage.Board.status().Readiness; r.Ready && !other.Ready {
			other.Partitions = r.Partitions
			r = other
		} else if len(other.Unwritten) > 0 {
			all := maps.Clone(other.Unwritten)
			maps.Copy(all, r.Unwritten)
			r.Unwritten = all
		}
	}
	return r
}

// answer writes JSON, with 200 if all is well and 503 if it is not.
func answer(w http.ResponseWriter, well bool, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(value) // the caller may be gone
}

// profiles answers with Go's profiles, under the paths of net/http/pprof.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
