import { createClient } from 'redis'
import { service } from '../services.ts'

/** The Redis that tests share; null where none answers. Each test takes a namespace of its own. */
export const REDIS: string | null = await service('redis', 'the limiter on Redis')

let namespaces = 0

/** A namespace that no other test uses. */
export function namespace(): string {
  return `test-${process.pid}-${Date.now().toString(36)}-${++namespaces}`
}

/** A connection for tests. */
export interface Client {
  sendCommand(args: string[]): Promise<unknown>
  close(): Promise<void>
}

/** Connects to the shared Redis, or to another. */
export async function connect(url: string = REDIS ?? ''): Promise<Client> {
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  return { sendCommand: (args) => client.sendCommand(args), close: async () => client.destroy() }
}

/** Deletes the keys of a namespace. */
export async function clear(client: Client, name: string): Promise<void> {
  const keys = (await client.sendCommand(['KEYS', `{sluice:${name}*`])) as string[]
  if (keys.length > 0) await client.sendCommand(['DEL', ...keys])
}
