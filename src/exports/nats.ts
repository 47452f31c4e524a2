/** Limits on NATS, over a connection of your own. Needs the package `@nats-io/kv`. */
import '../base/supported-node.ts'
export { natsBackend } from '../limiter/nats/create.ts'
export type { NatsConnection } from '../limiter/nats/kv.ts'
