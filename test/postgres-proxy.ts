// A network between engines and PostgreSQL that a test may spoil.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** One connection through the proxy. */
export interface Link {
  /** The first bytes of the client, which name its use. */
  listens: boolean
  /** No byte passes any more, in either direction; neither side gets an error. */
  dead: boolean
  /** The delay of the server's bytes, ms. */
  delayMs: number
  /** The next answer to something that holds this is lost, and the connection with it. */
  losesAnswerTo: ((text: string) => boolean) | null
  /** Ends both sides. */
  cut(): void
}

/** A TCP proxy in front of a PostgreSQL server. */
export class PostgresProxy {
  readonly links: Set<Link> = new Set()
  /** Connections that were ever made. */
  made: number = 0
  /** For new connections, too: what the server answers to such a request is lost, once. */
  losesAnswerTo: ((sent: string, answered: string) => boolean) | null = null
  /** New connections are taken and never answered. */
  swallows: boolean = false
  /** Holds what the server answers to such a request, until `release`. */
  holdsAnswerTo: ((sent: string) => boolean) | null = null
  #held: (() => void)[] = []
  readonly #server: Server
  readonly #target: URL

  private constructor(target: string) {
    this.#target = new URL(target)
    this.#server = createServer((client) => this.#join(client))
  }

  /** Listens until the test has finished. */
  static async before(target: string): Promise<PostgresProxy> {
    const proxy = new PostgresProxy(target)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    onTestFinished(() => proxy.close())
    return proxy
  }

  /** The database's address through the proxy. */
  get url(): string {
    const url = new URL(this.#target)
    url.host = `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return url.toString()
  }

  /** Connections that stand fall silent; new ones work. */
  silence(which: (link: Link) => boolean = () => true): number {
    const silenced = [...this.links].filter(which)
    for (const link of silenced) link.dead = true
    return silenced.length
  }

  /** Passes on the answers that were held, and holds none from now on. */
  release(): void {
    this.holdsAnswerTo = null
    for (const pass of this.#held.splice(0)) pass()
  }

  close(): void {
    for (const link of this.links) link.cut()
    this.#server.close()
  }

  #join(client: Socket): void {
    this.made++
    const { hostname, port } = this.#target
    const server = connect(Number(port) || 5432, hostname)
    const link: Link = {
      listens: false,
      dead: this.swallows,
      delayMs: 0,
      losesAnswerTo: null,
      cut: () => {
        client.destroy()
        server.destroy()
      },
    }
    this.links.add(link)
    let sent = ''
    const prepared = new Map<string, string>()
    client.on('data', (data) => {
      const text = data.toString('latin1')
      if (text.includes('LISTEN sluice')) link.listens = true
      // A prepared statement is sent once, with its name. Later calls send the name alone.
      for (const [, name = '', sql = ''] of text.matchAll(/(sluice_\w+_[0-9a-f]{16})\0([^\0]+)\0/g))
        prepared.set(name, sql)
      sent =
        text + Array.from(text.matchAll(/sluice_\w+_[0-9a-f]{16}/g), ([name]) => prepared.get(name) ?? '').join('\n')
      if (!link.dead) server.write(data)
    })
    server.on('data', (data) => {
      const text = data.toString('latin1')
      if (this.losesAnswerTo?.(sent, text)) {
        this.losesAnswerTo = null
        return link.cut()
      }
      if (link.losesAnswerTo?.(sent)) return link.cut()
      if (this.holdsAnswerTo?.(sent)) this.#held.push(() => this.#pass(link, client, data))
      else this.#pass(link, client, data)
    })
    const gone = (): void => {
      this.links.delete(link)
      server.destroy()
    }
    client.on('close', gone)
    server.on('close', () => {
      if (!link.dead) client.destroy()
    })
    client.on('error', () => {})
    server.on('error', () => {})
  }

  #pass(link: Link, client: Socket, data: Buffer): void {
    const write = (): void => void (!link.dead && client.write(data))
    if (link.delayMs === 0) return write()
    setTimeout(write, link.delayMs)
  }
}
