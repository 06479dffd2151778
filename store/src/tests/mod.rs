mod conforming;
