import { connect, type NatsConnection } from '@nats-io/transport-node'
import { Once } from '../../base/promises.ts'
import type { LimitBackend } from '../contract/limiter.ts'
import { NatsBackend } from './backend.ts'
import { Entries } from './kv.ts'

/** Opens a connection of its own, which connects again by itself. */
export function natsBackendOf(url: string, namespace: string): LimitBackend {
  const { host, username, password } = new URL(url)
  const login = username === '' ? {} : { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
  const connection = new Once<NatsConnection>(() =>
    connect({ servers: host, maxReconnectAttempts: -1, reconnectTimeWait: 100, ...login }),
  )
  const close = async (): Promise<void> => {
    await (await connection.done().catch(() => null))?.close()
  }
  return new NatsBackend(new Entries(() => connection.done(), namespace, 1), { close })
}
