// Package sanitize sanitizes traces in files by the code of the service, and measures on the
// trusted side how far the records are from the truth.
package sanitize
