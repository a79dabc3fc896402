#!/bin/sh
# Prepares the namespace that runs live in: it exists, keeps what has ended for 30 days, and knows
# Crewlog's search attributes. Run as often as you like.
# Takes TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE from the environment, as the `temporal` command does.
set -eu

namespace=${TEMPORAL_NAMESPACE:-default}
retention=${TEMPORAL_RETENTION:-30d}
patience=${TEMPORAL_PATIENCE:-60}

until temporal operator cluster health >/dev/null 2>&1; do
  patience=$((patience - 1))
  if [ "$patience" -le 0 ]; then
    echo "the Temporal server at ${TEMPORAL_ADDRESS:-localhost:7233} does not answer" >&2
    exit 1
  fi
  sleep 1
done

if temporal operator namespace describe --namespace "$namespace" >/dev/null 2>&1; then
  temporal operator namespace update --namespace "$namespace" --retention "$retention"
else
  temporal operator namespace create --namespace "$namespace" --retention "$retention"
fi

# A new namespace is known everywhere after some seconds.
known=
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  if known=$(temporal operator search-attribute list --namespace "$namespace" 2>/dev/null); then
    break
  fi
  sleep 1
done
for name in CrewlogCrew CrewlogPhase CrewlogStatus CrewlogWaiting; do
  case $known in
    *"$name"*) ;;
    *)
      temporal operator search-attribute create \
        --namespace "$namespace" --name "$name" --type Keyword
      ;;
  esac
done
echo "the namespace $namespace is ready: retention $retention, search attributes registered"
