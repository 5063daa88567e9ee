# Stand-in for python:3.11.14-slim-bookworm: Debian's Python 3.11.
FROM localhost/debian:bookworm
RUN ln -s python3 /usr/bin/python
