// Package fleet has fleets to try geodither with: simulated ones, which move by a model, and the
// shipped sample of eight Liverpool buses. It also feeds a raw topic, from them or from trace
// files, and holds the answers against what was fed.
package fleet
