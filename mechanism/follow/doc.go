// Package follow is for the readers of sanitized records, on the other side of the releases: they
// have the public model and public settings, and neither the fixes nor the key. All of it is
// post-processing of releases and costs no ε.
//
// A Follower runs the filter again from the records of one user, so it has every posterior that the
// service has. A Reader does so for all users, and hands over what each record tells: of the moment
// by itself, or with later records too (mechanism.Smoother). Sums add posteriors up by zone and
// window. Forgetting bounds what all records of a user tell about one moment.
package follow
