// Package fleet has fleets to try geodither with: simulated ones, which move by a model, and the
// shipped sample of eight Liverpool buses.
package fleet
