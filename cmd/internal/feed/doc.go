// Package feed writes raw fixes to a topic, from files or from a simulated fleet.
package feed
