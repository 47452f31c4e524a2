import { createServer, type Server as NodeServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { systemClock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import type { HttpApp } from './app.ts'
import { badRequest, hangUp, notExpected, refuse, responseOf } from './http-errors.ts'

/** Where a server listens. */
export interface ListenOptions {
  /** 0: any that is free. */
  readonly port: number
  readonly host: string
  /** For the head of a request, ms; who sends it more slowly is answered 408 and cut off. 10,000 by default. */
  readonly headersTimeoutMs?: number
  /** The same for all of a request; 30,000 by default. */
  readonly requestTimeoutMs?: number
}

/** A server that listens. */
export interface Listening {
  readonly url: string
  /** Takes no more connections, lets requests end, and cuts off those that have not after `withinMs`. */
  close(withinMs: number): Promise<void>
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/
const HEADERS_TIMEOUT_MS = 10_000
const REQUEST_TIMEOUT_MS = 30_000
const CHECK_EVERY_MS = 1000
/** Longer than the minute for which load balancers keep a connection: it is theirs to end it. */
const KEEP_ALIVE_MS = 65_000
const HEADER_BYTES = 16_384
const SWEEP_EVERY_MS = 50

/** Whether a host can be reached from this machine alone. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}

/** Serves an app over HTTP/1.1. @throws server.listen */
export async function listen(app: HttpApp, options: ListenOptions): Promise<Listening> {
  const { port, host, headersTimeoutMs = HEADERS_TIMEOUT_MS, requestTimeoutMs = REQUEST_TIMEOUT_MS } = options
  // The adapter puts its light Request and Response in the place of the global ones: this process is the server's own.
  const answer = getRequestListener((request: Request) => app.fetch(request), {
    // HTTP/1.0 has requests without a Host.
    hostname: 'localhost',
    errorHandler: () => responseOf(badRequest('The address of the request is invalid.')),
  })
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
        new SluiceError('server.listen', `Cannot listen on ${host}:${port}: ${cause.message}. Give another --port.`, {
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
    // A stream that ends now leaves its connection idle, and was not told at its beginning that it would be closed.
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
