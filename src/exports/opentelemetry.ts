/** The door to OpenTelemetry: needs the optional peer `@opentelemetry/api`. */
export { instrument, type InstrumentOptions } from '../telemetry/instrument.ts'
