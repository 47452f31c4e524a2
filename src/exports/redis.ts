/** Limits on Redis or Valkey, over a client of your own. Needs the package `redis` or `ioredis`. */
import '../base/supported-node.ts'
export { redisBackend } from '../limiter/redis/create.ts'
export type { RedisClient } from '../limiter/redis/client.ts'
