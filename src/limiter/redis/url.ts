import { createClient, createCluster, createSentinel } from 'redis'
import { SluiceError } from '../../base/errors.ts'
import type { LimitBackend } from '../contract/limiter.ts'
import { RedisBackend } from './backend.ts'
import { type RedisClient, RedisScripts } from './client.ts'
import { Connecting } from './connecting.ts'
import { RedisKeys } from './keys.ts'

/** The pauses between attempts to connect again, in ms. */
const FIRST_RETRY_MS = 20
const SLOWEST_RETRY_MS = 200
/** How often a sentinel is asked for the master. */
const SCANNED_EVERY_MS = 1000

const SOCKET = {
  reconnectStrategy: (retries: number): number =>
    Math.min(FIRST_RETRY_MS * 2 ** Math.min(retries, 10), SLOWEST_RETRY_MS),
}

/**
 * Opens a connection of its own, which connects again by itself: to one server, to a cluster (`redis+cluster://host`), or
 * to the master that sentinels name (`redis+sentinel://host/name`). `?node=host:port` adds further nodes or sentinels.
 * @throws {SluiceError} `limiter.url.invalid`
 */
export function redisBackendOf(url: string, namespace: string): LimitBackend {
  const { client, close } = openedOf(url)
  return new RedisBackend(client, { namespace, close })
}

/** Removes the limits of a namespace. Their buckets go by themselves. */
export async function removeLimits(url: string, namespace: string): Promise<void> {
  const { client, close } = openedOf(url)
  const { policies, changes } = new RedisKeys(namespace)
  try {
    await new RedisScripts(client).command('UNLINK', policies, changes)
  } finally {
    await close()
  }
}

interface Opened {
  readonly client: RedisClient
  readonly close: () => Promise<void>
}

function openedOf(url: string): Opened {
  const kind = /^rediss?\+(cluster|sentinel):/.exec(url)?.[1]
  return kind === 'cluster' ? clusterOf(url) : kind === 'sentinel' ? sentinelOf(url) : serverOf(url)
}

function serverOf(url: string): Opened {
  const connecting = new Connecting(url.startsWith('rediss'))
  const make = () => {
    // A command that waits for a connection would be carried out when its caller has given it up.
    const client = createClient({ url, disableOfflineQueue: true, socket: { ...SOCKET } })
    client.on('error', connecting.failed).on('ready', connecting.made)
    connecting.begin(client.connect())
    return client
  }
  let client = make()
  const sendCommand = async (args: string[]): Promise<unknown> => {
    await connecting.done()
    try {
      return await client.sendCommand(args)
    } catch (error) {
      // It has become a replica: the same address leads to the new master, or will.
      if (error instanceof Error && error.message.startsWith('READONLY') && !connecting.isUnderWay) {
        client.destroy()
        client = make()
      }
      throw connecting.reason(error)
    }
  }
  return { client: { sendCommand }, close: async () => client.destroy() }
}

function clusterOf(url: string): Opened {
  const { tls, nodes, login } = partsOf(url)
  const cluster = createCluster({
    rootNodes: nodes.map(({ host, port }) => ({ socket: { host, port, ...tls } })),
    defaults: { ...login, disableOfflineQueue: true, socket: { ...SOCKET, ...tls } },
  })
  const connecting = new Connecting('tls' in tls)
  cluster.on('error', connecting.failed).on('connect', connecting.made)
  connecting.begin(cluster.connect())
  const sendCommand = async (firstKey: string | undefined, isReadonly: boolean | undefined, args: string[]) => {
    await connecting.done()
    // Where no node answered, the next call looks for them again.
    if (!cluster.isOpen) connecting.begin(cluster.connect())
    return cluster.sendCommand(firstKey, isReadonly, args).catch((error: unknown) => {
      throw connecting.reason(error)
    })
  }
  return { client: { masters: null, sendCommand }, close: async () => cluster.destroy() }
}

function sentinelOf(url: string): Opened {
  const { tls, nodes, login, name } = partsOf(url)
  if (name === '')
    throw invalid('The address of a sentinel has no name of a master. Expected redis+sentinel://host:26379/mymaster.')
  const sentinel = createSentinel({
    name,
    sentinelRootNodes: nodes,
    scanInterval: SCANNED_EVERY_MS,
    nodeClientOptions: { ...login, disableOfflineQueue: true, socket: { ...SOCKET, ...tls } },
  })
  const connecting = new Connecting('tls' in tls)
  sentinel.on('error', connecting.failed).on('ready', connecting.made)
  let isConnecting = false
  const connect = async (): Promise<void> => {
    isConnecting = true
    await sentinel.connect().finally(() => (isConnecting = false))
  }
  connecting.begin(connect())
  const sendCommand = async (isReadonly: boolean | undefined, args: string[]): Promise<unknown> => {
    await connecting.done()
    if (!sentinel.isOpen && !isConnecting) connecting.begin(connect())
    connecting.requireConnected()
    return sentinel.sendCommand(isReadonly, args)
  }
  const getMasterNode = (): unknown => sentinel.getMasterNode()
  return { client: { getMasterNode, sendCommand }, close: () => sentinel.destroy() }
}

/** The parts of an address of several nodes. */
function partsOf(text: string) {
  const url = new URL(text)
  const { hostname, port, username, password, searchParams, pathname, protocol } = url
  const fallback = protocol.includes('sentinel') ? 26_379 : 6379
  const nodes = [{ host: hostname, port: Number(port) || fallback }]
  for (const [name, value] of searchParams) {
    const [, host, at] = /^([^:\s]+|\[[^\]]+\]):(\d{1,5})$/.exec(value) ?? []
    if (name !== 'node' || host === undefined)
      throw invalid(`The address has an invalid parameter: ${name.slice(0, 40)}. Expected node=host:port.`)
    nodes.push({ host, port: Number(at) })
  }
  const login = {
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
  }
  return {
    nodes,
    login,
    name: decodeURIComponent(pathname.slice(1)),
    tls: protocol.startsWith('rediss') ? ({ tls: true } as const) : {},
  }
}

function invalid(message: string): SluiceError {
  return new SluiceError('limiter.url.invalid', message)
}
