import { createServer, type Server as NodeServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { systemClock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import type { HttpApp } from './app.ts'
import { badRequest, hangUp, notExpected, refuse, responseOf } from './http-errors.ts'
import { noteIncoming } from './incoming.ts'

/** The address of a server, and its timeouts. */
export interface ListenOptions {
  /** 0: any free port. */
  readonly port: number
  readonly host: string
  /** The time for the head of a request, in ms; default 10,000. A slower client is answered 408 and disconnected. */
  readonly headersTimeoutMs?: number
  /** The time for a whole request, in ms; default 30,000. */
  readonly requestTimeoutMs?: number
}

/** A listening server. */
export interface Listening {
  readonly url: string
  /** Accepts no more connections and lets requests finish. After `withinMs` it ends those that still run. */
  close(withinMs: number): Promise<void>
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/
const HEADERS_TIMEOUT_MS = 10_000
const REQUEST_TIMEOUT_MS = 30_000
const CHECK_EVERY_MS = 1000
/** Longer than the minute for which load balancers keep a connection, so that they end it first. */
const KEEP_ALIVE_MS = 65_000
const HEADER_BYTES = 16_384
const SWEEP_EVERY_MS = 50

/** Returns whether only this machine can reach a host. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}

/** Serves an app over HTTP/1.1. @throws {SluiceError} `server.listen` */
export async function listen(app: Pick<HttpApp, 'fetch'>, options: ListenOptions): Promise<Listening> {
  const { port, host, headersTimeoutMs = HEADERS_TIMEOUT_MS, requestTimeoutMs = REQUEST_TIMEOUT_MS } = options
  // The adapter replaces the global Request and Response by its light ones: this process belongs to the server.
  const answer = getRequestListener(
    (request: Request, { incoming }) => {
      noteIncoming(request, incoming)
      return app.fetch(request)
    },
    {
      // HTTP/1.0 has requests without a Host.
      hostname: 'localhost',
      errorHandler: () => responseOf(badRequest('The address of the request is invalid.')),
    },
  )
  const server = createServer(
    {
      headersTimeout: headersTimeoutMs,
      requestTimeout: requestTimeoutMs,
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, headersTimeoutMs),
      keepAliveTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: HEADER_BYTES,
      requireHostHeader: false,
    },
    (request, response) => {
      if (request.headers.host === undefined && request.httpVersion !== '1.0')
        refuse(response, badRequest('The request has no Host.'))
      else void answer(request, response)
    },
  )
  server.on('clientError', hangUp)
  server.on('checkExpectation', (_, response) => refuse(response, notExpected()))
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new SluiceError('server.listen', `Cannot listen on ${host}:${port}: ${cause.message}. Choose another --port.`, {
          cause,
        }),
      ),
    )
    server.listen(port, host, () => resolve())
  })
  const address = server.address()
  const at = typeof address === 'object' && address ? address.port : port
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${at}`,
    close: (withinMs) => close(server, withinMs),
  }
}

function close(server: NodeServer, withinMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cutOff = AbortSignal.timeout(withinMs)
    cutOff.addEventListener('abort', () => server.closeAllConnections())
    // A stream that ends now leaves its connection idle: its headers did not announce that the connection closes.
    let timer = systemClock.setTimer(sweep, 0)
    function sweep(): void {
      server.closeIdleConnections()
      timer = systemClock.setTimer(sweep, SWEEP_EVERY_MS)
    }
    server.close(() => {
      timer.cancel()
      resolve()
    })
    server.closeIdleConnections()
  })
}
