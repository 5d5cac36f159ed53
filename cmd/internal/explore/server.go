package explore

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// DefaultListen is loopback, at a port that the system chooses.
const DefaultListen = "127.0.0.1:0"

// Server serves the page. It answers until Close.
type Server struct {
	// URL is the address of the page, with its token.
	URL string

	server *http.Server
	done   chan struct{}
}

// Open begins to serve.
func Open(o Options) (*Server, error) {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: write HOST:PORT, such as 127.0.0.1:8090: %w", err)
	}
	if err := o.Outline.check(o.maps()...); err != nil {
		return nil, fmt.Errorf("--outline: %w", err)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--listen: %s is in use by another process (%w)", o.Listen, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--listen: cannot listen at %s (%w)", o.Listen, err)
	}
	token := rand.Text()
	if address, ok := listener.Addr().(*net.TCPAddr); ok && address.IP.IsLoopback() && o.NoToken {
		token = ""
	}
	s := &Server{URL: "http://" + shown(listener.Addr(), host) + "/", done: make(chan struct{})}
	if token != "" {
		s.URL += token + "/"
	}
	s.server = &http.Server{
		Handler:           guard(handler(o), token, hosts(host), answerTime),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: writeTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener) // until it is closed
	}()
	return s, nil
}

// Close ends what is being answered, within a moment.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	<-s.done
}

// shown is the address for a browser: that of this machine's name where all addresses are
// listened at.
func shown(at net.Addr, host string) string {
	_, port, _ := net.SplitHostPort(at.String())
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return net.JoinHostPort(name, port)
		}
	}
	if host == "" {
		return at.String()
	}
	return net.JoinHostPort(host, port)
}

// hosts are the names by which a browser may ask, beside addresses: a page of elsewhere, whose name
// was made to lead to this machine (DNS rebinding), has another one.
func hosts(listen string) map[string]bool {
	known := map[string]bool{"localhost": true}
	if listen == "" || net.ParseIP(listen) != nil && net.ParseIP(listen).IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			known[strings.ToLower(name)] = true
		}
	} else {
		known[strings.ToLower(listen)] = true
	}
	return known
}

// guard lets through who may ask. With a token the first part of the path has to be that. All else
// is as if there were nothing. An answer that takes longer than most, with the wait for a free
// place, is given up.
func guard(
	next http.Handler, token string, known map[string]bool, most time.Duration,
) http.Handler {
	slots := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; "+
			"form-action 'none'; frame-ancestors 'none'; object-src 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !addressed(r.Host, token, known) {
			refuse(w, http.StatusMisdirectedRequest, "ask by the address that geodither printed")
			return
		}
		if token != "" {
			given, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
				refuse(w, http.StatusNotFound, "ask by the address that geodither printed")
				return
			}
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = "/"+rest, ""
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "this page is only read")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<10) // nothing reads it
		ctx, cancel := context.WithTimeout(r.Context(), most)
		defer cancel()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r.WithContext(ctx))
		case <-ctx.Done():
			refuse(w, http.StatusServiceUnavailable, "other questions kept the server busy: ask "+
				"again when they are answered")
		}
	})
}

// addressed says whether a Host header names this server: one of its names, a loopback address or,
// with a token, any address.
func addressed(hostport, token string, known map[string]bool) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return known[strings.ToLower(host)] || ip != nil && (ip.IsLoopback() || token != "")
}

// maps are those that the page draws.
func (o *Options) maps() []*grid.Grid {
	var all []*grid.Grid
	if o.Truth != nil {
		all = append(all, o.Truth.model.Grid)
	}
	if o.Public != nil {
		all = append(all, o.Public.model.Grid)
	}
	return all
}
