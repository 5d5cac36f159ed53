// Package kafkaconn makes every connection to Kafka: for the service, for all commands, and for
// kafka-go's requests as well as the project's own (consumer/wire).
//
// A Connection says how: with or without TLS, with or without a login, under which client id, from
// which rack. kafka-go pools what the Connection dials. TLS and the login happen here, while
// dialling, and not in kafka-go's transport: it gives the login no deadline, reads the session's
// lifetime and forgets it, and has no OAUTHBEARER. A connection whose session is about to end logs
// in again between two requests (KIP-368), so that no request meets a closed connection.
//
// Files that hold certificates, keys, passwords and tokens are read for each new connection or
// login, so that a change needs no restart. What they hold is in no error and no log.
//
// Files: kafkaconn.go the options, clients; link.go one connection, from dialling to the login that
// is repeated, and what to do about errors; tls.go, sasl.go, oauth.go the three parts of it.
package kafkaconn
