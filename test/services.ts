// The servers that some tests need, and what happens where they are missing.
import { connect } from 'node:net'

/** A server that tests talk to. */
export type Service = 'nats' | 'postgres' | 'redis'

const URLS: Readonly<Record<Service, string>> = {
  nats: process.env['SLUICE_TEST_NATS'] ?? 'nats://127.0.0.1:4222',
  postgres: process.env['SLUICE_TEST_POSTGRES'] ?? 'postgres://postgres@127.0.0.1:5432/test',
  redis: process.env['SLUICE_TEST_REDIS'] ?? 'redis://127.0.0.1:6379',
}
const PORTS: Readonly<Record<Service, number>> = { nats: 4222, postgres: 5432, redis: 6379 }
const PATIENCE_MS = 3000

/**
 * The URL of a server that tests need; null where it does not answer, which is said aloud, with what is left out.
 * `SLUICE_TEST_POSTGRES`, `SLUICE_TEST_REDIS` and `SLUICE_TEST_NATS` name others than those of this machine.
 * @throws under `CI=true` where it does not answer: there nothing may be left out
 */
export async function service(name: Service, leftOut: string): Promise<string | null> {
  const url = URLS[name]
  if (await answers(name)) return url
  return missing(`no ${name} answers at ${url}`, leftOut)
}

/**
 * Says aloud that tests are left out, and why.
 * @throws under `CI=true`: there nothing may be left out
 */
export function missing(why: string, leftOut: string): null {
  if (process.env['CI'] === 'true') throw new Error(`${why}: ${leftOut} cannot be left out under CI=true`)
  console.warn(`\n!!! LEFT OUT: ${leftOut}: ${why}. CONTRIBUTING.md says how to start one.\n`)
  return null
}

/** A store URL for a schema of its own on that server. */
export function inSchema(postgres: string, schema: string): string {
  const url = new URL(postgres)
  url.searchParams.set('schema', schema)
  return url.toString()
}

function answers(name: Service): Promise<boolean> {
  const { hostname, port } = new URL(URLS[name])
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) || PORTS[name], timeout: PATIENCE_MS })
    const end = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
  })
}
