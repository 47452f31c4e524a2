import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A network in front of a server, which loses what a test wants it to lose. */
export class LossyProxy {
  /** Of a connection that sends such a text, the server's answers are held from then on. */
  holdsAnswersTo: ((sent: string) => boolean) | null = null
  /** Of a connection that sends such a text, nothing reaches the server from then on, this text included. */
  swallows: ((sent: string) => boolean) | null = null
  /** Counts what reaches the server: it is `seen`. */
  watches: ((sent: string) => boolean) | null = null
  seen: number = 0
  readonly #server: Server
  readonly #target: URL
  readonly #links = new Set<Link>()

  private constructor(target: string) {
    this.#target = new URL(target)
    this.#server = createServer((client) => this.#join(client))
  }

  /** Listens until the test has finished. */
  static async before(target: string): Promise<LossyProxy> {
    const proxy = new LossyProxy(target)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    onTestFinished(() => {
      proxy.cut()
      proxy.#server.close()
    })
    return proxy
  }

  /** The server's address through the proxy. */
  get url(): string {
    const url = new URL(this.#target)
    url.host = `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return url.toString()
  }

  /** Passes on the answers that are held, and from now on all. */
  release(): void {
    this.holdsAnswersTo = null
    for (const link of this.#links) {
      link.isHeld = false
      for (const answer of link.held.splice(0)) link.client.write(answer)
    }
  }

  /** Ends all connections: what is held or swallowed is lost. New ones work. */
  cut(): void {
    this.holdsAnswersTo = null
    this.swallows = null
    for (const { client, server } of this.#links) {
      client.destroy()
      server.destroy()
    }
  }

  #join(client: Socket): void {
    const server = connect(Number(this.#target.port), this.#target.hostname)
    const link: Link = { client, server, held: [], isHeld: false, isMute: false }
    this.#links.add(link)
    client.on('data', (data) => {
      const text = data.toString('latin1')
      link.isMute ||= this.swallows?.(text) ?? false
      link.isHeld ||= this.holdsAnswersTo?.(text) ?? false
      if (link.isMute) return
      if (this.watches?.(text)) this.seen++
      server.write(data)
    })
    server.on('data', (data) => {
      if (link.isHeld) link.held.push(data)
      else client.write(data)
    })
    const gone = (): void => {
      this.#links.delete(link)
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) socket.on('close', gone).on('error', () => {})
  }
}

interface Link {
  readonly client: Socket
  readonly server: Socket
  readonly held: Buffer[]
  isHeld: boolean
  isMute: boolean
}
