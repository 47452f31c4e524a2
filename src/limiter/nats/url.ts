import { connect, type NatsConnection } from '@nats-io/transport-node'
import { Once } from '../../base/promises.ts'
import type { LimitBackend } from '../contract/limiter.ts'
import { NatsBackend } from './backend.ts'
import { Entries } from './kv.ts'

/** Opens a connection of its own, which connects again by itself. */
export function natsBackendOf(url: string, namespace: string): LimitBackend {
  const { entries, close } = openedOf(url, namespace)
  return new NatsBackend(entries, { close })
}

/** Removes the limits of a namespace, and their buckets. */
export async function removeLimits(url: string, namespace: string): Promise<void> {
  const { entries, close } = openedOf(url, namespace)
  try {
    await entries.remove()
  } finally {
    await close()
  }
}

function openedOf(url: string, namespace: string) {
  const { host, username, password } = new URL(url)
  const login = username === '' ? {} : { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
  const connection = new Once<NatsConnection>(() =>
    connect({ servers: host, maxReconnectAttempts: -1, reconnectTimeWait: 100, ...login }),
  )
  const close = async (): Promise<void> => {
    await (await connection.done().catch(() => null))?.close()
  }
  return { entries: new Entries(() => connection.done(), namespace, 1), close }
}
